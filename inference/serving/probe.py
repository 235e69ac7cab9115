"""Prints what a worker would find here, as one JSON object: `python -m inference.serving.probe --model M`.

For `infill-ls doctor` and `models`, which must not import torch themselves. Loads no weights and downloads nothing.
Lines before the last say what it is doing: `{"doing": TEXT}`.
"""

import argparse
import json
from dataclasses import asdict
from typing import Any

from inference.models.catalogue import AUTO, EMBEDDED
from inference.models.family import ModelError

_NO_QUALITY = {"percent": None, "protocol": "", "source": "", "length_told_percent": None}


def main() -> None:
    """Prints `{"torch", "devices", "model_problem", …}`; see the functions. An empty problem means none."""
    parser = argparse.ArgumentParser(prog="python -m inference.serving.probe")
    parser.add_argument("--model", default=AUTO)
    parser.add_argument("--device")
    parser.add_argument("--dtype")
    values = parser.parse_args()
    _tell("importing torch")
    found = {"torch": "", "devices": [], **_torch(), **_model(values.model, values.device, values.dtype)}
    found["devices"] += _mlx_devices(values.device)
    _tell("reading the models' headers")
    usable = not found["device_problem"]
    found["needs"] = _needs(found["model"], values.device) if usable else []
    found["catalogue"] = _catalogue(values.device) if usable else None
    print(json.dumps(found))


def _tell(doing: str) -> None:
    print(json.dumps({"doing": doing}), flush=True)


def _torch() -> dict[str, Any]:
    """Its version, and the accelerators with their memory in bytes; 0 if not known."""
    try:
        import torch
    except (ImportError, OSError) as error:  # a library that torch needs is missing, or built for another machine
        return {"torch_problem": str(error)}
    devices = []
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        free_bytes, total_bytes = torch.cuda.mem_get_info(index)
        name = torch.cuda.get_device_name(index)
        devices.append({"device": f"cuda:{index}", "name": name, "free_bytes": free_bytes, "total_bytes": total_bytes})
    if torch.backends.mps.is_available():
        devices.append({"device": "mps", "name": "Apple GPU", "free_bytes": 0, "total_bytes": 0})
    return {"torch": torch.__version__, "cuda_build": torch.version.cuda or "", "devices": devices}


def _mlx_devices(device: str | None) -> list[dict[str, Any]]:
    """The GPU of Apple silicon, if MLX runs on it; its CPU on request."""
    from inference.models.mlx.installed import DEVICE

    try:
        from inference.models.mlx import machine

        here = machine.look()
    except (ModelError, ImportError, OSError):  # reported in `device_problem` if requested
        return []
    name = "Apple GPU" if here.on_gpu else "MLX on this CPU"
    about = {"device": here.name, "name": name, "free_bytes": here.free_bytes, "total_bytes": here.total_bytes}
    return [about] if here.on_gpu or device == DEVICE else []


def _model(model: str, device: str | None, dtype: str | None) -> dict[str, Any]:
    """The model to examine, the reason if the choice is ours, and why it or the device is unusable."""
    choice = model_problem = device_problem = ""
    checkpoint = None
    if model == AUTO:
        try:
            from inference.models import recommend

            model, choice, _ = recommend.choose(device)
        except (ModelError, ImportError):  # reported in `device_problem`
            model = EMBEDDED
    try:
        from inference.models import registry

        found = registry.find(model)
        found.tokenizer()
        checkpoint = found
    except (ModelError, ImportError) as error:
        model_problem = str(error)
    try:
        from inference.models import registry  # again: it may be what failed

        registry.place(checkpoint, device, dtype)
    except (ModelError, ImportError) as error:
        device_problem = str(error)
    return {"model": model, "choice": choice, "model_problem": model_problem, "device_problem": device_problem}


def _needs(model: str, device: str | None) -> list[dict[str, Any]]:
    """The memory for the embedded checkpoint and `model` on the device, in each dtype, best first."""
    from inference.models import devices, registry

    found = []
    for name in dict.fromkeys((EMBEDDED, model)):
        try:
            checkpoint = registry.find(name)
            place = registry.place(checkpoint, device)
            bytes_ = {dtype: registry.weight_bytes(checkpoint, dtype, device) for dtype in place.dtypes}
        except ModelError:
            continue  # reported in `model_problem`
        dtypes = [{"dtype": dtype, "needed_bytes": devices.needed_bytes(bytes_[dtype])} for dtype in place.dtypes]
        about = {"device": place.name, "free_bytes": place.free_bytes, "four_bit": place.can_pack}
        found.append({"model": name, **about, "dtypes": dtypes})
    return found


def _catalogue(device: str | None) -> dict[str, Any]:
    """The known models, how each fares here, and the name of the one for a new user."""
    from inference.models import discovery, downloads, recommend
    from inference.models.catalogue import ENTRIES

    machine = recommend.this_machine(device)
    others = discovery.found(on_file=lambda done, of: _tell(f"reading what other programs have: {done} of {of} files"))
    models = [
        {
            "name": entry.name,
            "repo": entry.repo,
            "about": entry.about,
            "licence": entry.licence,
            "download_bytes": int(entry.download_bytes),
            **asdict(recommend.judge(entry, machine)),
            "is_here": downloads.is_here(entry),
            "steps": recommend.steps_to(entry, machine),
            **(asdict(entry.quality) if entry.quality else _NO_QUALITY),
        }
        for entry in ENTRIES
    ]
    return {
        "found": [{**asdict(one), "fills": one.fills} for one in others],
        "machine": {"device": machine.device, "free_bytes": machine.free_bytes, "total_bytes": machine.total_bytes},
        "recommended": recommend.recommended(machine).name,
        "models": models,
    }


if __name__ == "__main__":
    main()

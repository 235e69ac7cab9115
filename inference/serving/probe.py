"""Prints what a worker would find here, as one JSON object: `python -m inference.serving.probe --model M`.

For `infill-ls doctor`, which must not import torch itself. Loads no weights and downloads nothing.
"""

import argparse
import json
from typing import Any


def main() -> None:
    """Print `{"torch", "devices", "model_problem", "device_problem", "needs"}`; an empty problem means none."""
    parser = argparse.ArgumentParser(prog="python -m inference.serving.probe")
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--device")
    parser.add_argument("--dtype")
    values = parser.parse_args()
    found = {"torch": "", "devices": [], **_torch(), **_problems(values.model, values.device, values.dtype)}
    print(json.dumps(found | {"needs": [] if found["device_problem"] else _needs(values.model, values.device)}))


def _torch() -> dict[str, Any]:
    try:
        import torch
    except (ImportError, OSError) as error:  # a library that torch needs is missing, or built for another machine
        return {"torch_problem": str(error)}
    return {"torch": torch.__version__, "cuda_build": torch.version.cuda or "", "devices": _devices(torch)}


def _devices(torch: Any) -> list[dict[str, Any]]:
    """The accelerators, with their memory in bytes; 0 where it is not known."""
    devices = []
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        free_bytes, total_bytes = torch.cuda.mem_get_info(index)
        name = torch.cuda.get_device_name(index)
        devices.append({"device": f"cuda:{index}", "name": name, "free_bytes": free_bytes, "total_bytes": total_bytes})
    if torch.backends.mps.is_available():
        devices.append({"device": "mps", "name": "Apple GPU", "free_bytes": 0, "total_bytes": 0})
    return devices


def _problems(model: str, device: str | None, dtype: str | None) -> dict[str, str]:
    """Why `model` or `device` could not be used, in the engine's own words."""
    from inference.models.family import ModelError

    problems = {"model_problem": "", "device_problem": ""}
    try:
        from inference.models import registry

        registry.find(model).tokenizer()
    except (ModelError, ImportError) as error:
        problems["model_problem"] = str(error)
    try:
        from inference.models import devices

        devices.precisions(dtype, devices.choose_device(device))
    except (ModelError, ImportError) as error:
        problems["device_problem"] = str(error)
    return problems


def _needs(model: str, device: str | None) -> list[dict[str, Any]]:
    """What the embedded checkpoint, the released one and `model` need on the device, in each dtype, the best first."""
    from inference.models import catalogue, devices, registry
    from inference.models.checkpoint import EMBEDDED
    from inference.models.family import ModelError

    place, found = devices.choose_device(device), []
    names = [precision.name for precision in devices.precisions(None, place)]
    for name in dict.fromkeys((EMBEDDED, model, catalogue.RELEASED.name)):
        try:
            checkpoint = registry.find(name)
            bytes_ = {dtype: registry.weight_bytes(checkpoint, dtype) for dtype in names}
        except ModelError:
            if name != catalogue.RELEASED.name:
                continue  # what is wrong with it stands in `model_problem`
            bytes_ = {dtype: catalogue.RELEASED.weight_bytes[dtype] for dtype in names}
        dtypes = [{"dtype": dtype, "needed_bytes": devices.needed_bytes(bytes_[dtype])} for dtype in names]
        about = {"device": str(place), "free_bytes": devices.free_bytes(place), "four_bit": devices.has_four_bit()}
        found.append({"model": name, **about, "dtypes": dtypes})
    return found


if __name__ == "__main__":
    main()

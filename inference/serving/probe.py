"""Prints how well the models of the catalogue run here, as one JSON object: `python -m inference.serving.probe`.

For `infill-ls doctor` and `models`, which must not import torch themselves. Loads no weights and downloads nothing.
Lines before the last say what it is doing: `{"doing": TEXT}`.
"""

import argparse
import json
from dataclasses import asdict
from typing import Any

from inference.models.family import ModelError

_NO_QUALITY = {"percent": None, "protocol": "", "source": "", "length_told_percent": None}


def main() -> None:
    """Prints `{"problem", "catalogue"}`: why the machine could not be examined, or "" and what `_catalogue` returns."""
    parser = argparse.ArgumentParser(prog="python -m inference.serving.probe")
    parser.add_argument("--device")
    device = parser.parse_args().device
    _print_activity("importing torch")
    report: dict[str, Any] = {"problem": "", "catalogue": None}
    try:
        report["catalogue"] = _catalogue(device)
    except (ModelError, ImportError, OSError) as error:  # of torch's libraries, one may be missing
        report["problem"] = str(error)
    print(json.dumps(report))


def _print_activity(doing: str) -> None:
    print(json.dumps({"doing": doing}), flush=True)


def _catalogue(device: str | None) -> dict[str, Any]:
    """The known models, how well each runs here, and the name of the one for a new user. Raises ModelError."""
    from inference.models import discovery, model_store, recommend
    from inference.models.catalogue import ENTRIES

    machine = recommend.examine_machine(device)
    _print_activity("reading the models' headers")
    downloads = discovery.discover_foreign_models(
        on_file=lambda n, of: _print_activity(f"reading what other programs have: {n} of {of} files")
    )
    models = [
        {
            "name": entry.name,
            "repo": entry.repo,
            "about": entry.about,
            "licence": entry.licence,
            "edits": entry.edit_kind,
            "download_bytes": int(entry.download_bytes),
            **asdict(recommend.judge_fit(entry, machine)),
            "is_here": model_store.is_pulled(entry),
            "steps": recommend.install_commands(entry, machine),
            **(asdict(entry.quality) if entry.quality else _NO_QUALITY),
        }
        for entry in ENTRIES
    ]
    return {
        "found": [download.as_json() for download in downloads],
        "machine": {"device": machine.device, "free_bytes": machine.free_bytes, "total_bytes": machine.total_bytes},
        "recommended": recommend.recommend_for_new_user(machine).name,
        "suitable": [entry.name for entry in recommend.suitable_models(machine)],
        "models": models,
    }


if __name__ == "__main__":
    main()

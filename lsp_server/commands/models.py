"""`infill-ls models`: lists the models here and those that suit; `infill-ls models pull NAME` downloads one."""

import argparse
import asyncio
import json
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.padding import Padding

from inference.messages import ChooseModelAgain
from inference.terminal import format_bytes, print_message, printable
from lsp_server.commands import inference_process, output
from lsp_server.diagnosis.models import model_setting, probe_catalogue, steps_to_best_model
from lsp_server.diagnosis.workers import survey_workers
from lsp_server.worker import WorkerError
from lsp_server.worker.connect import NotListeningError, attach_to_running

_NAME = "infill-ls models"
_WORKER_S = 30.0
_MAX_SUITABLE = 3
_COLUMNS = "{:<25} {:>8} {:>8}  {:<14} {}"
_VERDICTS = {"package": "needs a package", "memory": "too large", "device": "not with MLX"}
_FOOTNOTE = """
Infilling: HumanEval-Infilling, single line, in percent, as published unless it is our own. pass@1: the tests pass (in \
brackets: the model is told the hole's length). exact: the line equals the hidden one. Compare only equal kinds. \
Memory: for the weights and the smallest request. Sizes of models in several files follow from the published shapes.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", metavar="NAME", help="cuda, mps, mlx or cpu (default: the best available)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--all", action="store_true", help="list every model, with what it is")
    actions = parser.add_subparsers(dest="action", metavar="[pull]")
    pull = actions.add_parser("pull", help="download a model and verify its files")
    pull.add_argument("model", metavar="NAME", help="a name from the table, or a hub id: owner/name")
    pull.add_argument("--accept-licence", action="store_true", help="accept its licence without asking")


def run(args: argparse.Namespace) -> int:
    """Shows the models, or downloads one. Exit status 0; 1 if it failed; 2 for a name of no model."""
    if args.action == "pull":
        flags = ["--accept-licence"] if args.accept_licence else []
        status = inference_process.pull([args.model, *flags])
        if not status:
            asyncio.run(_tell_workers())
        return status
    try:
        catalogue = asyncio.run(probe_catalogue(args.device, output.progress_printer(as_json=args.json)))
    except (OSError, ValueError) as error:
        print_message(f"cannot examine this machine: {error}; run: infill-ls doctor", "infill-ls models")
        return 1
    if args.json:
        print(json.dumps(catalogue))
    else:
        _show(catalogue, is_all=args.all)
    return 0


async def _tell_workers() -> None:
    """Has each running worker of `auto` choose again: if it then chooses another model, its editors move to that."""
    with suppress(WorkerError, NotListeningError, TimeoutError):
        async with asyncio.timeout(_WORKER_S):
            for worker in (await survey_workers(_NAME)).running:
                connection = await attach_to_running(worker.paths, _NAME)
                connection.send(ChooseModelAgain())
                connection.close()


def _show(catalogue: dict[str, Any], *, is_all: bool) -> None:
    """Prints a row for each model that is here or suits this machine; `is_all`: for all models, each with details."""
    models, best = {model["name"]: model for model in catalogue["models"]}, catalogue["recommended"]
    pulled = [name for name, model in models.items() if model["is_here"]]
    suitable = [name for name in catalogue["suitable"] if name not in pulled][:_MAX_SUITABLE]
    others = [name for name in models if name not in pulled + suitable]
    console = Console(highlight=False, markup=False)
    console.print(_COLUMNS.format("", "download", "memory", "licence", "on this machine"), soft_wrap=True)
    for heading, names in {"Here": pulled, "Suit this machine": suitable, "Others": others if is_all else []}.items():
        if names:
            console.print(heading, style="bold")
        for name in names:
            style = "bold green" if name == best else ""
            console.print(printable(_line(models[name])).rstrip(), style=style, soft_wrap=True)
            if is_all:
                console.print(Padding(printable(_details(models[name])), (0, 0, 0, 4)), style="dim")
    if catalogue["found"]:
        console.print("From other programs", style="bold")
    for download in catalogue["found"]:
        console.print(printable(_download_line(download)), soft_wrap=True)
    console.print(_FOOTNOTE if is_all else "")
    advice = steps_to_best_model(catalogue)
    console.print(printable(f"Best here: {best}. {advice[:1].upper()}{advice[1:]}"), style="bold", soft_wrap=True)
    if not is_all:
        console.print(f"{len(others)} more, and what each model is: infill-ls models --all", soft_wrap=True)


def _download_line(download: dict[str, Any]) -> str:
    """The row of another program's model, with the setting that uses it."""
    setting = "nextEdit.model" if download["edits"] else "model"
    use = download["problem"] or f'{setting} = "{model_setting(download)}"'
    size = format_bytes(download["bytes_"])
    return _COLUMNS.format("  " + download["name"], size, "", download["program"], use)


def _line(model: dict[str, Any]) -> str:
    """The row of a model, at most 80 characters. Memory: in the dtype that runs here, otherwise the least of any."""
    needed = model["needed_bytes"].get(model["dtype"]) or min(model["needed_bytes"].values(), default=0)
    verdict = _VERDICTS.get(model["verdict"], model["verdict"])
    if model["wait_s"]:
        verdict += f", {model['wait_s']:.1f} s {'an edit' if model['edits'] else 'a line'}"
    return _COLUMNS.format(
        "  " + model["name"],
        format_bytes(model["download_bytes"]) if model["download_bytes"] else "none",
        f"{max(needed / 1e9, 0.1):.1f} GB" if needed else "",
        model["licence"].partition(":")[0],
        verdict,
    )


def _details(model: dict[str, Any]) -> str:
    told_length = f" ({model['length_told_percent']})" if model["length_told_percent"] else ""
    infilling = "fills no holes" if model["edits"] else "infilling not published"
    if model["percent"]:
        infilling = f"infilling {model['percent']}{told_length}, {model['protocol']}: {model['source']}"
    return f"{model['about']}; {model['words']}; licence {model['licence']}; {infilling}"

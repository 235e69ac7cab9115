"""`infill-ls models`: lists the models and which run here; `infill-ls models pull NAME` downloads one."""

import argparse
import asyncio
import json
import sys
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.table import Table

from inference.messages import ChooseModelAgain
from inference.terminal import printable, say
from lsp_server.commands import inference_process, output
from lsp_server.diagnosis.models import model_setting, probed_catalogue, steps_to_best_model
from lsp_server.diagnosis.workers import format_bytes, survey_workers
from lsp_server.worker import WorkerError
from lsp_server.worker.connect import NotListeningError, attach_to_running

_NAME = "infill-ls models"
_WORKER_S = 30.0
_WIDE = 200
"""Columns if the output is not a terminal."""
_FOOTNOTE = """\
Infilling: HumanEval-Infilling, single line, in percent, as published, unless the source says that it is our own.
pass@1: the tests pass, where the model finds the length of the hole itself or where several are given (in brackets:
where it is told it). exact: the line equals the hidden one. Compare only figures of the same kind. Sizes of models in
several files are computed from the published shapes. Memory: for the weights and the smallest request, by dtype."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", metavar="NAME", help="cuda, mps, mlx or cpu (default: the best available)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
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
        catalogue = asyncio.run(probed_catalogue(args.device, output.progress_printer(as_json=args.json)))
    except (OSError, ValueError) as error:
        say(f"cannot examine this machine: {error}; run: infill-ls doctor", "infill-ls models")
        return 1
    if args.json:
        print(json.dumps(catalogue))
    else:
        _show(catalogue)
    return 0


async def _tell_workers() -> None:
    """Has each running worker of `auto` choose again: if it then chooses another model, its editors move to that."""
    with suppress(WorkerError, NotListeningError, TimeoutError):
        async with asyncio.timeout(_WORKER_S):
            for worker in (await survey_workers(_NAME)).running:
                connection = await attach_to_running(worker.paths, _NAME)
                connection.send(ChooseModelAgain())
                connection.close()


def _show(catalogue: dict[str, Any]) -> None:
    models = catalogue["models"]
    best = catalogue["recommended"]
    sources = list(dict.fromkeys(model["source"] for model in models if model["source"]))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("name", "what it is", "licence", "download", "memory, GB", "on this machine", "infilling"):
        table.add_column(heading, overflow="fold")
    for model in models:
        style = "bold green" if model["name"] == best else "" if model["verdict"] == "runs" else "dim"
        table.add_row(*map(printable, _cells(model, sources)), style=style)
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else _WIDE)
    console.print(table)
    console.print()
    console.print(_FOOTNOTE, soft_wrap=True)
    for index, source in enumerate(sources, 1):
        console.print(f"[{index}] {source}", soft_wrap=True)
    console.print()
    if catalogue["found"]:
        console.print(_downloads_table(catalogue["found"]))
        console.print()
    advice = steps_to_best_model(catalogue)
    console.print(printable(f"Best here: {best}. {advice[:1].upper()}{advice[1:]}"), style="bold", soft_wrap=True)


def _downloads_table(downloads: list[dict[str, Any]]) -> Table:
    """The downloads of other programs, and how to use the usable ones."""
    table = Table(box=None, pad_edge=False, header_style="bold", title="On this machine already", title_justify="left")
    for heading in ("name", "from", "size", "how to use it"):
        table.add_column(heading, overflow="fold")
    for download in downloads:
        use = (
            download["problem"] or f'{"nextEdit.model" if download["edits"] else "model"} = "{model_setting(download)}"'
        )
        style = "" if download["fills"] or download["edits"] else "dim"
        table.add_row(
            *map(printable, (download["name"], download["program"], format_bytes(download["bytes_"]), use)), style=style
        )
    return table


def _cells(model: dict[str, Any], sources: list[str]) -> tuple[str, ...]:
    note = f" ({model['length_told_percent']})" if model["length_told_percent"] else ""
    return (
        model["name"],
        model["about"],
        model["licence"],
        format_bytes(model["download_bytes"]) if model["download_bytes"] else "none",
        ", ".join(f"{dtype} {max(needed / 1e9, 0.1):.1f}" for dtype, needed in model["needed_bytes"].items()),
        model["words"] + ("; downloaded" if model["is_here"] and model["repo"] else ""),
        f"{model['percent']}{note} {model['protocol']} [{sources.index(model['source']) + 1}]"
        if model["percent"]
        else "fills no holes"
        if model["edits"]
        else "not published",
    )

"""`infill-ls status`: shows the running workers. Starts none."""

import argparse
import asyncio
import json

from rich.console import Console

from inference.remote.file_privacy import folder_permission_problem
from inference.terminal import print_message, printable
from lsp_server.diagnosis.workers import WorkerSurvey, describe_status, survey_as_json, survey_workers
from lsp_server.worker.paths import runtime_folder

EXIT_UNRESPONSIVE = 1
EXIT_NO_WORKER = 3
_STYLES = {"ready": "green", "busy": "cyan", "failed": "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Prints the running workers; exit status 3 if there is none, 1 if one does not answer or none can."""
    if problem := folder_permission_problem(runtime_folder()):
        print_message(problem, "infill-ls status")
        return EXIT_UNRESPONSIVE
    workers = asyncio.run(survey_workers("infill-ls status"))
    if args.json:
        print(json.dumps(survey_as_json(workers)))
    else:
        _show(workers)
    if workers.silent:
        return EXIT_UNRESPONSIVE
    return 0 if workers.running else EXIT_NO_WORKER


def _show(workers: WorkerSurvey) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if not (workers.running or workers.silent):
        console.print("No worker is running; the first request starts one.")
    for worker in workers.running:
        state = worker.status.state.value
        console.print(state, style=_STYLES.get(state, "yellow"), end=": ")
        console.print(printable(describe_status(worker.status)), markup=False)
    for silent in workers.silent:
        console.print("silent", style="red", end=": ")
        console.print(printable(silent), markup=False)

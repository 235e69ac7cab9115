"""`infill-ls doctor`: checks each model through its worker, the settings and a file, and says what to do."""

import argparse
import asyncio
import dataclasses
import json
import os
import platform
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from shutil import which

from rich.console import Console

from inference.deadline import Deadline
from inference.install_hints import mlx_advice
from inference.messages import Hole, InfillRequest, PinnedText, Status, WorkerOptions, WorkerState
from inference.models.catalogue import AUTO, EMBEDDED, MODEL_FOR_NEW_USERS
from inference.models.model_store import quantised_folder
from inference.remote import address, server_token
from inference.terminal import format_bytes, printable
from lsp_server.commands import output
from lsp_server.commands.arguments import add_model_arguments, settings_from_flags
from lsp_server.diagnosis.file_report import examine_file, examine_settings
from lsp_server.diagnosis.models import OnActivity, other_programs_downloads, reuse_downloads_advice
from lsp_server.diagnosis.workers import CheckResult, Grade, describe_loading, describe_status
from lsp_server.documents.document import Snapshot
from lsp_server.documents.uris import paths_via_links
from lsp_server.fill.pipeline import FillBudget, fill
from lsp_server.holes import HoleSpan
from lsp_server.settings.configuration import FILE_NAME, Configuration
from lsp_server.settings.schema import Settings, json_schema
from lsp_server.settings.worker_options import (
    edit_model_options,
    is_remote,
    options_problem,
    partner_options,
    worker_options,
)
from lsp_server.worker import WorkerClient, WorkerError
from lsp_server.worker.failure import StillLoadingError
from lsp_server.worker.paths import paths_of

EXIT_USAGE = 2
_NAME_COLUMNS = 24
_STYLES = {Grade.OK: "green", Grade.WARN: "yellow", Grade.FAIL: "bold red"}
_LIMIT_MS = 60_000
"""The time limit for everything; a partner's server may still have to load its model."""
_EXAMPLE = (
    PinnedText("def mean(numbers):\n    return "),
    Hole(single_line=True),
    PinnedText("\n\n\nprint(mean([1, 2, 3]))\n"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="explain why this file gets no fills")
    parser.add_argument("--at", metavar="LINE:COL", help="a position in it, counted from 1")
    add_model_arguments(parser)
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print one JSON object")
    shape.add_argument("--schema", action="store_true", help="print the JSON Schema of the settings and exit")


def run(args: argparse.Namespace) -> int:
    """Prints every check; exit status 1 if one failed, 2 for bad arguments."""
    if args.schema:
        print(json.dumps(json_schema(), indent=2))
        return 0
    if args.at and not args.file:
        print("infill-ls: --at LINE:COL needs a FILE", file=sys.stderr)
        return EXIT_USAGE
    checks: list[CheckResult] = []
    for check in _examine(args, output.progress_printer(as_json=args.json)):
        checks.append(check)
        if not args.json:
            _show(check)
    healthy = all(check.verdict is not Grade.FAIL for check in checks)
    if args.json:
        print(json.dumps({"healthy": healthy, "checks": [dataclasses.asdict(check) for check in checks]}))
    return 0 if healthy else 1


def _examine(args: argparse.Namespace, report: OnActivity) -> Iterator[CheckResult]:
    """The checks of the program, of the models, of the settings in effect here, and of the file, if given."""
    path = (args.file or Path(FILE_NAME)).absolute()  # whose settings are those of this folder
    configuration = Configuration(settings_from_flags(args), os.environ, names=paths_via_links(path))
    settings = configuration.at_path(path)
    options = worker_options(settings, sends_token=configuration.sends_token)
    yield CheckResult("infill-ls", Grade.OK, version("infill-ls"))
    yield CheckResult("python", Grade.OK, f"{platform.python_version()} at {sys.executable}")
    yield from _examine_worker(options, report)
    yield CheckResult("log", Grade.OK, str(paths_of(options).log))
    if settings.partner.url and not options.partner:
        yield from _examine_worker(partner_options(settings, sends_token=configuration.sends_partner_token), report)
    yield from _edit_model(settings, report)
    with suppress(OSError):  # a worker may be writing them
        if (size := sum(file.stat().st_size for file in quantised_folder().rglob("*.safetensors"))) >= 1e6:
            advice = "delete what you like of it: the next start of a model that needs it writes it again"
            yield CheckResult("quantised weights", Grade.OK, f"{format_bytes(size)} in {quantised_folder()}", advice)
    yield from examine_settings(configuration)
    if args.file:
        ask = None if options_problem(options) else lambda *hole: asyncio.run(_suggest(options, settings, *hole))
        yield from examine_file(args.file, args.at, configuration, ask)


def _edit_model(settings: Settings, report: OnActivity) -> Iterator[CheckResult]:
    if options := edit_model_options(settings):
        yield from _examine_worker(options, report)
    elif settings.next_edit.model == AUTO:
        state = "no edit model on this machine; next edits come from rules, checked by the fill model where it can"
        yield CheckResult("edit model", Grade.OK, f"{state} (see: infill-ls models)")


def _examine_worker(options: WorkerOptions, report: OnActivity) -> Iterator[CheckResult]:
    """The checks of the worker of `options` once it has loaded its model, for which it gets a minute."""
    remote = is_remote(options)
    name = "edit model" if options.edits else "partner" if options.partner else "server" if remote else "model"
    if unusable := options_problem(options):
        yield CheckResult.from_message(name, Grade.FAIL, unusable)
        return
    if remote:
        yield from _destination(options, name)
    try:
        status, fills = asyncio.run(_load_and_fill(options, report))
    except (WorkerError, TimeoutError) as failure:
        grade = Grade.WARN if isinstance(failure, StillLoadingError) else Grade.FAIL
        timeout_message = f"{options.model} did not answer within {_LIMIT_MS / 1000:.0f} s; check that it is running"
        yield CheckResult.from_message(name, grade, str(failure) or timeout_message)
        return
    advice = ""
    if options.model == AUTO and status.model == EMBEDDED:
        better = f"run: infill-ls models pull {status.better or MODEL_FOR_NEW_USERS}"
        advice = f"{better}{reuse_downloads_advice(other_programs_downloads(), status.device)}"
    yield CheckResult(name, Grade.WARN if status.note else Grade.OK, describe_status(status), advice)
    if status.device == "cpu" and which("nvidia-smi"):
        yield CheckResult(
            "device", Grade.WARN, "cpu", "there is an NVIDIA driver: install torch's CUDA build to use the GPU"
        )
    if status.device == "cpu" and (advice := mlx_advice()):
        yield CheckResult("device", Grade.WARN, "cpu", advice)
    if fills:
        yield fills


def _destination(options: WorkerOptions, name: str) -> Iterator[CheckResult]:
    """Where text goes, and whose token goes with it."""
    server = address.parse_server_url(options.model)
    subject = f"{name} text goes to".removeprefix("server ")
    if server.is_encrypted or server.is_local:
        why_safe = "encrypted" if server.is_encrypted else "on this machine"
        yield CheckResult(subject, Grade.OK, f"{server.url}, {why_safe}")
    else:
        risk = f"{server.url}, unencrypted: anyone on the network can read your code"
        yield CheckResult(subject, Grade.WARN, risk, "use https, or a tunnel")
    role = address.setting_names_of(edits=options.edits, partner=options.partner)
    source = server_token.token_source(role=role) if options.sends_token else ""
    yield CheckResult(f"{name} token", Grade.OK, f"from {source}" if source else "none")


@asynccontextmanager
async def _loaded(options: WorkerOptions, report: OnActivity) -> AsyncIterator[WorkerClient]:
    """A worker with its model. Ends one that did not run before and that nobody else has joined meanwhile. Raises
    WorkerError and TimeoutError.
    """
    async with WorkerClient(options, name="doctor", on_status=lambda state: report(describe_loading(state))) as worker:
        ran = await worker.request_status() is not None
        try:
            await worker.load(Deadline(_LIMIT_MS))
            yield worker
        finally:
            if not ran:
                await worker.shut_down(if_unused=True)


async def _load_and_fill(options: WorkerOptions, report: OnActivity) -> tuple[Status, CheckResult | None]:
    """The worker's status, and whether a partner fills the example hole. Raises WorkerError and TimeoutError."""
    deadline = Deadline(_LIMIT_MS)
    async with _loaded(options, report) as worker:
        status = worker.last_status or Status(WorkerState.READY)
        return status, await _fill(worker, deadline) if options.partner else None


async def _suggest(options: WorkerOptions, settings: Settings, snapshot: Snapshot, hole: HoleSpan) -> CheckResult:
    """The result of an automatic request for the hole: its text, or why there is none."""
    try:
        async with _loaded(options, lambda _: None) as worker:
            budget = FillBudget.from_settings(settings, invoked=False)
            result = await fill(worker, snapshot, [hole], budget, marker=settings.marker)
    except (WorkerError, TimeoutError) as failure:
        return CheckResult.from_message("suggestion", Grade.WARN, str(failure) or "the model did not answer")
    if result.candidates:
        return CheckResult("suggestion", Grade.OK, repr(result.candidates[0].texts[0]))
    return CheckResult("suggestion", Grade.WARN, f"none: {result.empty_reason(budget)}")


async def _fill(worker: WorkerClient, deadline: Deadline) -> CheckResult:
    began = time.monotonic()
    answer = await worker.request(InfillRequest("doctor", _EXAMPLE, "python", "mean.py"), deadline=deadline)
    ms = (time.monotonic() - began) * 1000
    if not answer.candidates or not answer.candidates[0].texts[0]:
        advice = "check that the model knows code, or set partner.kind to prompt it differently"
        return CheckResult("partner fills", Grade.WARN, "no fill for a function that lacks its result", advice)
    return CheckResult("partner fills", Grade.OK, f"`return {answer.candidates[0].texts[0]}` in {ms:.0f} ms")


def _show(check: CheckResult) -> None:
    console = Console(highlight=False, soft_wrap=True, markup=False)
    console.print(f"{check.verdict:4}", style=_STYLES[check.verdict], end="  ")
    console.print(f"{printable(check.name):{_NAME_COLUMNS}}  {printable(check.found)}")
    if check.advice:
        console.print(f"{'':{_NAME_COLUMNS + 8}}{printable(check.advice)}", style="bold")
    sys.stdout.flush()

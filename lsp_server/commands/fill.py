"""`infill-ls fill`: fills the holes of one file together. Obeys privacy and settings as the language server does."""

import argparse
import asyncio
import itertools
import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from inference.messages import Candidate, ErrorCode
from inference.models.catalogue import AUTO, EMBEDDED, FIRST
from inference.models.printable import say
from lsp_server import carve
from lsp_server.commands import output
from lsp_server.commands.arguments import (
    COMMAND_LINE,
    add_model_arguments,
    add_shape_arguments,
    add_trust_argument,
    given_settings,
)
from lsp_server.documents.document import Document, Snapshot
from lsp_server.documents.reading import (
    BadInput,
    offset_at_line_col,
    read_named_file,
    read_standard_input,
    replace_text,
)
from lsp_server.documents.uris import names_of
from lsp_server.fill.fitting import count_unfilled, current_texts, without_new_holes
from lsp_server.fill.pipeline import Budget, FillOptions, fill, left_as_they_are
from lsp_server.settings.launch import worker_options
from lsp_server.settings.layers import Layer, resolve
from lsp_server.settings.resolver import Configuration, configuration_for
from lsp_server.settings.schema import Settings
from lsp_server.syntax.languages import language_of
from lsp_server.worker import WorkerClient, WorkerFailure
from lsp_server.worker.failure import StillLoadingError

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
_SPARE_CANDIDATES = 3
"""Ask for at least this many answers, because some are not fit to insert."""
_MAKES_DO = "the tiny bundled model filled this, because no pulled model runs here; for a real one, run: "


class NothingFound(Exception):
    """The worker answered, but with nothing that can be inserted."""


@dataclass(frozen=True)
class FileToFill:
    """A file that may be filled. `real` has all links resolved; for standard input, both are the given name."""

    file: Path
    real: Path
    snapshot: Snapshot
    spans: tuple[carve.Span, ...]
    settings: Settings
    configuration: Configuration


@dataclass(frozen=True)
class FillReport:
    """The result of filling a file. `candidates`, best first, are ready to insert; there is at least one.

    `better`: the model to pull, if the embedded one filled it because none was pulled.
    """

    candidates: tuple[Candidate, ...]
    model: str
    device: str
    ms: float
    better: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the file with the holes (UTF-8); -: stdin")
    parser.add_argument(
        "--stdin-filename", type=Path, metavar="FILE", help="file name for stdin, which determines the language"
    )
    parser.add_argument(
        "--at", action="append", default=[], metavar="LINE:COL", help="a place to fill, counted from 1; may be repeated"
    )
    parser.add_argument("--marker", metavar="TEXT", help="the marker of a hole (default: the setting, otherwise ???)")
    add_shape_arguments(parser)
    candidates = "number of answers to request"
    parser.add_argument("--candidates", dest="candidates.invoked", type=int, metavar="N", help=candidates)
    steps = "maximum number of denoising steps"
    parser.add_argument("--steps", dest="maxSteps", type=int, metavar="N", help=steps)
    limit = "time limit, including loading the model; after it, the best answer so far is used"
    parser.add_argument("--deadline-ms", dest="deadlineMs.invoked", type=int, metavar="N", help=limit)
    parser.add_argument(
        "--seed",
        type=_seed,
        metavar="N",
        help="random seed of a diffusion model; other models ignore it",
    )
    add_model_arguments(parser)
    add_trust_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Fills the file's holes. Exit status 2 with one line for bad input, 1 if the worker failed."""
    try:
        file = _file_to_fill(args)
        report = asyncio.run(_fill(file, args))
        texts = report.candidates[0].texts
        found = output.as_json(file.snapshot, file.spans, texts)
        text = str(found["result"])
        if args.write:
            replace_text(file.file, file.real, file.snapshot.text, text)
    except (BadInput, NothingFound, WorkerFailure) as error:
        if args.json and isinstance(error, NothingFound | StillLoadingError):
            nothing = output.as_json(file.snapshot, file.spans, current_texts(file.snapshot, file.spans))
            output.write(json.dumps({**nothing, "candidates": [], "reason": str(error)}, ensure_ascii=False) + "\n")
        say(error)
        refused = isinstance(error, WorkerFailure) and error.code in (ErrorCode.MODEL, ErrorCode.BAD_REQUEST)
        return EXIT_BAD_INPUT if refused or isinstance(error, BadInput) else EXIT_FAILED
    current = current_texts(file.snapshot, file.spans)
    filled = len(current) - count_unfilled(texts, current)
    found |= {
        "model": report.model,
        "device": report.device,
        "candidates": [
            {"texts": list(c.texts), "score": c.score, "steps": c.steps, "tokens": c.tokens} for c in report.candidates
        ],
        "ms": round(report.ms, 1),
    }
    done = f"{filled} of {len(current)} filled in {report.ms:.0f} ms"
    output.show(args, file.file, (file.snapshot.text, text), found, done)
    if left := left_as_they_are(texts, current):
        say(left)
    if report.better:
        say(f"{_MAKES_DO}infill-ls models pull {report.better}")
    return 0


def _file_to_fill(args: argparse.Namespace) -> FileToFill:
    """Reads the file, unless it may hold secrets or is switched off. Raises BadInput."""
    from_stdin = args.file == "-"
    name = args.stdin_filename or Path("stdin") if from_stdin else Path(args.file)
    if from_stdin and args.write:
        raise BadInput("--write needs a file, and stdin is none; leave it out to print the result")
    path = Path(os.path.abspath(name))  # noqa: PTH100 - does not follow links
    configuration = configured(path, args)
    settings = configuration.at(path)
    real = require_allowed(name, configuration)
    text = read_standard_input() if from_stdin else read_named_file(name, real)
    snapshot = Document(path.as_uri(), language_of(str(path)), 0, text).snapshot()
    spans = tuple(_spans(snapshot, args, settings.marker))
    return FileToFill(name, real, snapshot, spans, settings, configuration)


def configured(path: Path, args: argparse.Namespace) -> Configuration:
    """The settings around a file. Reports their problems; raises BadInput for one of the command line."""
    given = given_settings(args)
    for problem in resolve([Layer(COMMAND_LINE, given)])[1]:
        raise BadInput(problem)
    configuration = configuration_for(path, given, os.environ)
    for problem in configuration.problems:
        say(problem)
    return configuration


def require_allowed(file: Path, configuration: Configuration) -> Path:
    """The real path of the file. Raises BadInput if it, or the target of a link on its path, may not be read."""
    path = Path(os.path.abspath(file))  # noqa: PTH100 - does not follow links
    real = names_of(path)[-1]
    if os.path.realpath(file) != str(real):
        raise BadInput(f"{file}: '..' after a link does not lead where it seems to; give the path without it")
    if reason := configuration.why_unreadable(path, language_of(str(path))):
        raise BadInput(f"{file}: {reason}")
    return real


def _spans(snapshot: Snapshot, args: argparse.Namespace, marker: str) -> list[carve.Span]:
    if args.marker is not None and args.at:
        raise BadInput("--marker cannot be combined with --at")
    if not args.at:
        found = carve.markers(snapshot, marker)
        if not found:
            raise BadInput(f"{args.file}: no hole; write {marker} where code is missing, or give positions with --at")
        return found
    spans = sorted((_span_at(snapshot, place, args.file, marker) for place in args.at), key=lambda span: span.start)
    for left, right in itertools.pairwise(spans):
        if right.start < left.end or right == left:
            raise BadInput(f"{args.file}: two --at positions are in the same hole")
    return spans


def _span_at(snapshot: Snapshot, place: str, file: Path, marker: str) -> carve.Span:
    span = carve.at_cursor(snapshot, offset_at_line_col(snapshot.lines, place, file), marker)
    if span is None:
        raise BadInput(f"{file}: nothing to fill at {place}; choose the end of a word, of a line, or a missing body")
    return span


async def _fill(file: FileToFill, args: argparse.Namespace) -> FillReport:
    """Asks the worker. Raises NothingFound, WorkerFailure."""
    began_s = time.monotonic()
    with output.progress(file.snapshot, file.spans, args) as (on_status, on_draft):
        options = worker_options(file.settings, sends_token=file.configuration.sends_token)
        async with WorkerClient(options, name="infill-ls fill", on_status=on_status) as client:
            budget = await _budget_once_loaded(client, file, args)
            asked = replace(budget, candidates=max(budget.candidates, _SPARE_CANDIDATES))
            result = await fill(
                client,
                file.snapshot,
                file.spans,
                asked,
                options=FillOptions(seed=args.seed),
                on_draft=on_draft,
                marker=file.settings.marker,
            )
            status = client.last_status
    current = current_texts(file.snapshot, file.spans)
    marker = file.settings.marker
    candidates = tuple(itertools.islice(without_new_holes(result.candidates, current, marker), budget.candidates))
    if not candidates:
        raise NothingFound(result.why_empty(budget))
    model, device = (status.model, status.device) if status else (file.settings.model, "")
    ms = (time.monotonic() - began_s) * 1000
    better = (status.better if status else "") or FIRST if model == EMBEDDED and options.model == AUTO else ""
    return FillReport(candidates, model, device, ms, better)


async def _budget_once_loaded(client: WorkerClient, file: FileToFill, args: argparse.Namespace) -> Budget:
    """The settings' budget, once there is a model. Only a deadline from the user includes loading it. Raises
    WorkerFailure.
    """
    budget = Budget.of(file.settings, invoked=True)
    is_set = "deadlineMs" in given_settings(args) or budget.deadline_ms != Settings().deadline_ms.invoked
    try:
        await client.load(budget.deadline)
    except StillLoadingError:
        if is_set:
            raise
        await client.load()
    return budget if is_set else budget.from_now()


def _seed(text: str) -> int:
    """A seed for torch. Raises ArgumentTypeError."""
    if not (text.isdecimal() and len(text) < 20 and int(text) < 2**63):
        raise argparse.ArgumentTypeError(f"'{text[:30]}' is not a whole number from 0 to {2**63 - 1}")
    return int(text)

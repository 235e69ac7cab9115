"""`infill-ls fill`: fills the holes of one file together. Obeys privacy and settings as the language server does."""

import argparse
import asyncio
import itertools
import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from inference.deadline import Deadline
from inference.messages import ErrorCode
from inference.terminal import print_message
from lsp_server import holes
from lsp_server.commands import output
from lsp_server.commands.arguments import (
    add_model_arguments,
    add_output_arguments,
    add_trust_workspace_argument,
    settings_from_flags,
    whole_number,
)
from lsp_server.context.retrieval import ASKED_MS, ContextGatherer, ContextQuery
from lsp_server.documents.document import Document, Snapshot
from lsp_server.documents.reading import (
    BadInputError,
    offset_at_line_col,
    overwrite_file,
    read_named_file,
    read_standard_input,
)
from lsp_server.documents.uris import paths_via_links
from lsp_server.fill.pipeline import FillBudget, FillOptions, fill, unfilled_message
from lsp_server.fill.postprocess import count_unfilled, current_hole_texts
from lsp_server.settings.configuration import COMMAND_LINE, Configuration
from lsp_server.settings.schema import Settings
from lsp_server.settings.worker_options import worker_options
from lsp_server.syntax.languages import language_id_of_path
from lsp_server.worker import WorkerClient, WorkerError
from lsp_server.worker.failure import StillLoadingError

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
_SPARE_CANDIDATES = 3
"""Ask for at least this many answers, because some are not fit to insert."""
_DEADLINE_MS = 120_000
"""The default. It is longer than an editor's: a user at a terminal sees the drafts and can press Ctrl-C."""
_USED_BUNDLED_MODEL = "the tiny bundled model filled this, because no pulled model runs here; for a real one, run: "


class NoUsableFillError(Exception):
    """The worker answered, but with nothing that can be inserted."""


@dataclass(frozen=True)
class FileArgument:
    """A file of the command line that may be read. `real_path` has no links; for standard input it is the name."""

    real_path: Path
    snapshot: Snapshot
    configuration: Configuration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the file with the holes (UTF-8); -: stdin")
    parser.add_argument(
        "--stdin-filename", type=Path, metavar="FILE", help="file name for stdin, which determines the language"
    )
    parser.add_argument(
        "--at", action="append", default=[], metavar="LINE:COL", help="a place to fill, counted from 1; may be repeated"
    )
    parser.add_argument("--marker", metavar="TEXT", help="the marker of a hole (default: the setting, otherwise ???)")
    add_output_arguments(parser)
    candidates = "number of answers to request"
    parser.add_argument("--candidates", dest="candidates.invoked", type=int, metavar="N", help=candidates)
    parser.add_argument("--steps", dest="maxSteps", type=int, metavar="N", help="maximum number of denoising steps")
    limit = "time limit, including loading the model, for the best answer so far (default: 2 minutes once it is loaded)"
    parser.add_argument("--deadline-ms", dest="deadlineMs.invoked", type=int, metavar="N", help=limit)
    parser.add_argument(
        "--seed",
        type=partial(whole_number, 0, 2**63 - 1),
        metavar="N",
        help="random seed of a diffusion model; other models ignore it",
    )
    add_model_arguments(parser)
    add_trust_workspace_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Fills the file's holes. Exit status 2 with one line for bad input, 1 if the worker failed."""
    from_stdin = args.file == "-"
    try:
        if from_stdin and args.write:
            raise BadInputError("--write needs a file, and stdin is none; leave it out to print the result")
        name = args.stdin_filename or Path("stdin") if from_stdin else Path(args.file)
        file = open_file_argument(name, args, from_stdin=from_stdin)
        old = file.snapshot.text
        marker = file.configuration.for_uri(file.snapshot.uri).marker
        if args.marker is not None and args.at:
            raise BadInputError("--marker cannot be combined with --at")
        spans = tuple(_spans_at(file.snapshot, args, marker) if args.at else holes.find_markers(file.snapshot, marker))
        if not spans:
            raise BadInputError(
                f"{args.file}: no hole; write {marker} where code is missing, or give positions with --at"
            )
        current = current_hole_texts(file.snapshot, spans)
        answer, better = asyncio.run(_fill(file, spans, args))
        texts = answer["candidates"][0]["texts"]
        text = holes.splice(old, spans, texts)
        if args.write:
            overwrite_file(name, file.real_path, old, text)
    except (BadInputError, NoUsableFillError, WorkerError) as error:
        if args.json and isinstance(error, NoUsableFillError | StillLoadingError):
            nothing = {**output.fills_as_json(file.snapshot, spans, current), "candidates": [], "reason": str(error)}
            output.print_change(args, name, (old, old), nothing, "")
        print_message(error)
        refused = isinstance(error, WorkerError) and error.code in (ErrorCode.MODEL, ErrorCode.BAD_REQUEST)
        return EXIT_BAD_INPUT if refused or isinstance(error, BadInputError) else EXIT_FAILED
    report = output.fills_as_json(file.snapshot, spans, texts) | answer if args.json else None
    filled = len(current) - count_unfilled(texts, current)
    output.print_change(args, name, (old, text), report, f"{filled} of {len(current)} filled in {answer['ms']:.0f} ms")
    if unfilled := unfilled_message(texts, current):
        print_message(unfilled)
    if better:
        print_message(f"{_USED_BUNDLED_MODEL}infill-ls models pull {better}")
    return 0


def open_file_argument(name: Path, args: argparse.Namespace, *, from_stdin: bool = False) -> FileArgument:
    """The file `name`, or standard input as if it had that name, and the settings around it, whose problems are said.
    Raises BadInputError for a bad argument, and if the file, or the target of a link on its path, may not be read.
    """
    path = Path(os.path.abspath(name))  # noqa: PTH100 - does not follow links
    language = language_id_of_path(str(path))
    names = paths_via_links(path)
    configuration = Configuration(settings_from_flags(args), os.environ, names=names)
    for problem in configuration.problems:
        if problem.startswith(COMMAND_LINE):
            raise BadInputError(problem)
        print_message(problem)
    real = names[-1]
    if os.path.realpath(name) != str(real):
        raise BadInputError(f"{name}: '..' after a link does not lead where it seems to; give the path without it")
    settings = configuration.at_path(path)
    if reason := configuration.disabled_reason([alias.as_posix() for alias in names], language, settings):
        raise BadInputError(f"{name}: {reason}")
    text = read_standard_input() if from_stdin else read_named_file(name, real)
    return FileArgument(real, Document(path.as_uri(), language, 0, text).snapshot(), configuration)


def _spans_at(snapshot: Snapshot, args: argparse.Namespace, marker: str) -> list[holes.HoleSpan]:
    spans = []
    for position in args.at:
        span = holes.hole_at_cursor(snapshot, offset_at_line_col(snapshot.lines, position, args.file), marker)
        if span is None:
            advice = "choose the end of a word, of a line, or a missing body"
            raise BadInputError(f"{args.file}: nothing to fill at {position}; {advice}")
        spans.append(span)
    spans.sort(key=lambda span: span.start)
    for previous, following in itertools.pairwise(spans):
        if following.start < previous.end or following == previous:
            raise BadInputError(f"{args.file}: two --at positions are in the same hole")
    return spans


async def _fill(
    file: FileArgument, spans: tuple[holes.HoleSpan, ...], args: argparse.Namespace
) -> tuple[dict[str, Any], str]:
    """Asks the worker, once it has its model: only a deadline from the user includes loading that. Returns at least one
    candidate, best first, and what wrote it, as JSON; and the model to pull, if the embedded one must do. Raises
    NoUsableFillError and WorkerError.
    """
    settings = file.configuration.for_uri(file.snapshot.uri)
    budget = FillBudget.from_settings(settings, invoked=True)
    usual_ms = Settings().deadline_ms.invoked
    is_set = vars(args)["deadlineMs.invoked"] is not None or budget.deadline.timeout_ms != usual_ms
    with output.live_draft_display(file.snapshot, spans, args) as (on_status, on_draft):
        options = worker_options(settings, sends_token=file.configuration.sends_token)
        async with WorkerClient(options, name="infill-ls fill", on_status=on_status) as client:
            await client.load(budget.deadline if is_set else None)
            if not is_set:
                budget = replace(budget, deadline=Deadline(_DEADLINE_MS))
            query = ContextQuery.from_snapshot(file.snapshot, spans[0].start, client.last_status, file.configuration)
            wait_ms = min(ASKED_MS, budget.deadline.remaining_ms) if is_set else ASKED_MS
            context = await ContextGatherer().gather(query, int(wait_ms))
            result = await fill(
                client,
                file.snapshot,
                spans,
                replace(budget, candidates=max(budget.candidates, _SPARE_CANDIDATES)),
                options=FillOptions(seed=args.seed),
                on_draft=on_draft,
                context=context,
                marker=settings.marker,
            )
            status = client.last_status
    if not result.candidates:
        raise NoUsableFillError(result.empty_reason(budget))
    candidates = [
        {"texts": candidate.texts, "score": candidate.score, "steps": candidate.steps, "tokens": candidate.tokens}
        for candidate in result.candidates[: budget.candidates]
    ]
    answer: dict[str, Any] = {
        "model": status.model if status else settings.model,
        "device": status.device if status else "",
        "candidates": candidates,
        "ms": round(budget.deadline.elapsed_ms, 1),
    }
    return answer, client.better_model

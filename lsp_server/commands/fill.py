"""`infill-ls fill`: the holes of one file, filled jointly by the resident worker."""

import argparse
import asyncio
import itertools
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from inference.messages import (
    MAX_CANDIDATES,
    MAX_STEPS,
    Candidate,
    ErrorCode,
    InfillRequest,
    Outcome,
    Status,
)
from lsp_server import carve
from lsp_server.commands import output
from lsp_server.documents.document import Document, Snapshot
from lsp_server.documents.reading import BadInput, offset_of, read_named_file
from lsp_server.documents.writing import replace_text
from lsp_server.fill.candidates import count_unfilled, current_texts, fitted
from lsp_server.settings.environment import environment_layers
from lsp_server.settings.layers import resolve
from lsp_server.syntax.languages import language_of
from lsp_server.worker import WorkerClient, WorkerFailure, WorkerOptions, alive

EXIT_FAILED, EXIT_BAD_INPUT = 1, 2
_DAY_MS = 24 * 3600 * 1000
_SPARE_CANDIDATES = 3
"""At least this many answers are asked for, because some are not fit to be put in."""


class NothingFound(Exception):
    """The worker answered, but with nothing that could be put in."""


@dataclass(frozen=True)
class Filled:
    """What came back for a file. `candidates` are fit to be put in as they are, best first."""

    snapshot: Snapshot
    spans: tuple[carve.Span, ...]
    candidates: tuple[Candidate, ...]
    status: Status | None
    ms: float

    @property
    def filled(self) -> int:
        """How many holes the best candidate fills; the others keep what stands in them."""
        now = current_texts(self.snapshot, self.spans)
        return len(now) - count_unfilled(self.candidates[0].texts, now)

    @property
    def result(self) -> str:
        """The whole text with the best candidate in place."""
        return carve.splice(self.snapshot.text, self.spans, self.candidates[0].texts)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the file whose holes are filled (UTF-8)")
    parser.add_argument(
        "--at", action="append", default=[], metavar="LINE:COL", help="a place to fill, counted from 1; may be repeated"
    )
    parser.add_argument("--marker", metavar="TEXT", help=f"what marks a hole (default: {carve.DEFAULT_MARKER})")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print one JSON object")
    shape.add_argument("--diff", action="store_true", help="print a unified diff")
    shape.add_argument("--write", action="store_true", help="write the result into the file")
    parser.add_argument(
        "--candidates", type=_number(1, MAX_CANDIDATES), default=1, metavar="N", help="how many answers to ask for"
    )
    parser.add_argument("--steps", type=_number(1, MAX_STEPS), metavar="N", help="the most denoising steps of a canvas")
    parser.add_argument(
        "--deadline-ms", type=_number(1, _DAY_MS), metavar="N", help="answer after this time with what stands"
    )
    parser.add_argument("--seed", type=_number(0, 2**63 - 1), metavar="N", help="the seed of the random stream")
    add_model_arguments(parser)


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Which model, where. What is not given is what the environment sets, as for an editor's server."""
    layers, _ = environment_layers(os.environ)
    now, _ = resolve(layers)
    parser.add_argument("--model", default=now.model, metavar="ID_OR_FOLDER", help="the model (default: %(default)s)")
    parser.add_argument("--device", default=now.device, metavar="NAME", help="cuda, mps or cpu (default: the best)")
    parser.add_argument("--dtype", default=now.dtype, metavar="NAME", help="float32, bfloat16 or float16")
    parser.add_argument(
        "--allow-download",
        action="store_true",
        default=now.allow_download,
        help="fetch the model from the hub if it is not here",
    )


def run(args: argparse.Namespace) -> int:
    """Fills the file's holes. Exit status 2 with one line for bad input, 1 where the worker failed."""
    try:
        snapshot = _read(args.file)
        spans = tuple(_spans(snapshot, args))
        filled = asyncio.run(_fill(snapshot, spans, args))
        if args.write:
            replace_text(args.file, snapshot.text, filled.result)
    except BadInput as error:
        return _complain(error, EXIT_BAD_INPUT)
    except NothingFound as error:
        return _complain(error, EXIT_FAILED)
    except WorkerFailure as error:
        bad_input = error.code in (ErrorCode.MODEL, ErrorCode.BAD_REQUEST)
        return _complain(error, EXIT_BAD_INPUT if bad_input else EXIT_FAILED)
    output.show(filled, args)
    return 0


def _complain(error: Exception, status: int) -> int:
    print(f"infill-ls: {' '.join(str(error).split())}", file=sys.stderr)
    return status


def _read(file: Path) -> Snapshot:
    text = read_named_file(file)
    return Document(file.resolve().as_uri(), language_of(str(file)), 0, text).snapshot()


def _spans(snapshot: Snapshot, args: argparse.Namespace) -> list[carve.Span]:
    if args.marker is not None and (args.at or not args.marker):
        raise BadInput("--marker may not be empty, nor stand beside --at")
    if not args.at:
        marker = args.marker or carve.DEFAULT_MARKER
        found = carve.markers(snapshot, marker)
        if not found:
            raise BadInput(f"{args.file}: no hole; put {marker} where code is wanted, or name places with --at")
        return found
    spans = sorted((_span_at(snapshot, place, args.file) for place in args.at), key=lambda span: span.start)
    for left, right in itertools.pairwise(spans):
        if right.start < left.end or right == left:
            raise BadInput(f"{args.file}: two of the --at places fall into the same hole")
    return spans


def _span_at(snapshot: Snapshot, place: str, file: Path) -> carve.Span:
    span = carve.at_cursor(snapshot, offset_of(snapshot.lines, place, file))
    if span is None:
        raise BadInput(f"{file}: nothing to fill at {place}; choose the end of a word, of a line, or a missing body")
    return span


async def _fill(snapshot: Snapshot, spans: tuple[carve.Span, ...], args: argparse.Namespace) -> Filled:
    request = InfillRequest(
        id="fill",
        segments=carve.segments(snapshot.text, spans, marker=args.marker or carve.DEFAULT_MARKER),
        language=snapshot.language_id,
        path=args.file.name.encode(errors="replace").decode(),
        candidates=max(args.candidates, _SPARE_CANDIDATES),
        deadline_ms=args.deadline_ms,
        max_steps=args.steps,
        drafts=output.wants_drafts(args),
        seed=args.seed,
    )
    options = WorkerOptions(model=args.model, device=args.device, dtype=args.dtype, allow_download=args.allow_download)
    began = time.monotonic()
    with output.progress(snapshot, spans, args) as shown:
        client = WorkerClient(options, name="infill-ls fill", on_status=shown.status)
        try:
            await alive.loaded(client)  # only then does the deadline start to count
            answer = await alive.answer(client, request, shown.draft)
            status = await alive.while_alive(client, client.status(), alive.GRACE_S)
        finally:
            await client.close()
    candidates = tuple(fitted(snapshot, spans, answer.candidates))[: args.candidates]
    if not candidates:
        late = answer.done.outcome is Outcome.DEADLINE
        raise NothingFound("no answer before the deadline; give it more time" if late else "the model has no answer")
    return Filled(snapshot, spans, candidates, status, (time.monotonic() - began) * 1000)


def _number(least: int, most: int) -> Callable[[str], int]:
    """Reads a whole number within limits."""

    def read(text: str) -> int:
        digits = text.removeprefix("-")
        value = int(text) if digits.isdecimal() and len(digits) < 20 else None
        if value is None or not least <= value <= most:
            raise argparse.ArgumentTypeError(f"'{text[:30]}' is not a whole number from {least} to {most}")
        return value

    return read

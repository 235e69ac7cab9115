"""What `infill-ls fill` prints: the canvas settling on a terminal, else plain text, JSON or a diff."""

import argparse
import difflib
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from inference.messages import Draft, Status, WorkerState
from lsp_server.carve import Span
from lsp_server.documents.document import Snapshot
from lsp_server.documents.positions import Encoding

if TYPE_CHECKING:
    from lsp_server.commands.fill import Filled

_CONTEXT_LINES = 3
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""A line for a patch tool: only a newline ends it."""
_SURE, _LIKELY = 0.9, 0.5


class Silent:
    """Progress where nobody watches."""

    def status(self, status: Status) -> None:
        """The worker's state changed."""

    def draft(self, draft: Draft) -> None:
        """The canvas after a step."""


class Settling(Silent):
    """Progress on a terminal: the worker's loading, then the holes in their surroundings, settling step by step."""

    def __init__(self, live: Live, snapshot: Snapshot, spans: tuple[Span, ...]) -> None:
        self._live, self._snapshot, self._spans = live, snapshot, spans

    def status(self, status: Status) -> None:
        """Shows how far the model is loaded."""
        if status.state is WorkerState.LOADING:
            self._live.update(Text(f"loading {status.model} {status.progress:.0%} {status.detail}", style="dim"))

    def draft(self, draft: Draft) -> None:
        """Shows the holes as they stand, colour by confidence."""
        view = excerpt(self._snapshot, self._spans, draft)
        self._live.update(Text.assemble((f"step {draft.step} of {draft.max_steps}\n", "dim"), view))


def wants_drafts(args: argparse.Namespace) -> bool:
    """Whether anybody would see them."""
    return sys.stderr.isatty() and not args.json


@contextmanager
def progress(snapshot: Snapshot, spans: tuple[Span, ...], args: argparse.Namespace) -> Iterator[Silent]:
    """What to tell of the work while it is done; gone from the terminal afterwards."""
    if not wants_drafts(args):
        yield Silent()
        return
    with Live(console=Console(stderr=True), transient=True, refresh_per_second=20) as live:
        yield Settling(live, snapshot, spans)


def excerpt(snapshot: Snapshot, spans: tuple[Span, ...], draft: Draft) -> Text:
    """The lines around each hole with the draft in place: green where it is sure, yellow, red where it is not."""
    shown = Text()
    line, last = 0, snapshot.lines.line_count - 1
    position = 0
    for number, span in enumerate(spans):
        first = max(line, snapshot.lines.position(span.start, Encoding.UTF32)[0] - _CONTEXT_LINES)
        if first > line and number:
            shown.append("…\n", style="dim")
        position = max(position, snapshot.lines.line_start(first))
        shown.append(snapshot.text[position : span.start])
        for piece, confidence in zip(draft.pieces[number], draft.confidences[number], strict=True):
            shown.append(piece, style=colour(confidence))
        end_line = snapshot.lines.position(span.end, Encoding.UTF32)[0]
        following = spans[number + 1].start if number + 1 < len(spans) else len(snapshot.text)
        line = min(end_line + _CONTEXT_LINES, last)
        position = min(following, snapshot.lines.line_end(line))
        shown.append(snapshot.text[span.end : position])
        shown.append("\n" if position < following else "")
        position = min(position + 1, following) if position < following else position
    return shown


def colour(confidence: float) -> str:
    """The colour of a token: how sure the model is of it."""
    return "bold green" if confidence >= _SURE else "yellow" if confidence >= _LIKELY else "red"


def show(filled: "Filled", args: argparse.Namespace) -> None:
    """Prints the answer in the shape that was asked for."""
    if args.json:
        _write(json.dumps(as_json(filled, args), ensure_ascii=False) + "\n")
    elif args.diff:
        _write(diff(filled, str(args.file)))
    elif args.write:
        print(f"{args.file}: {filled.filled} of {len(filled.spans)} filled in {filled.ms:.0f} ms", file=sys.stderr)
    else:
        _write(filled.result)


def _write(text: str) -> None:
    """To stdout as UTF-8, line ends as they are, whatever the terminal's encoding is."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode(errors="replace"))
    sys.stdout.buffer.flush()


def diff(filled: "Filled", name: str) -> str:
    """A unified diff from the file to the result."""
    before, after = (_LINE.findall(text) for text in (filled.snapshot.text, filled.result))
    lines = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def as_json(filled: "Filled", args: argparse.Namespace) -> dict[str, object]:
    """The answer as one JSON object; lines and columns count from 1, in characters."""
    best = filled.candidates[0]
    places = [filled.snapshot.lines.position(span.start, Encoding.UTF32) for span in filled.spans]
    return {
        "model": filled.status.model if filled.status else args.model,
        "device": filled.status.device if filled.status else "",
        "holes": [
            {"line": line + 1, "column": column + 1, "text": text}
            for (line, column), text in zip(places, best.texts, strict=True)
        ],
        "candidates": [
            {"texts": list(c.texts), "score": c.score, "steps": c.steps, "tokens": c.tokens} for c in filled.candidates
        ],
        "ms": round(filled.ms, 1),
        "result": filled.result,
    }

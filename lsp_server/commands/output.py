"""The output of `infill-ls fill`: the settling canvas on a terminal, otherwise plain text, JSON or a diff."""

import argparse
import difflib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from inference.messages import Draft, Status
from inference.terminal import git_quoted, printable
from lsp_server.diagnosis.workers import describe_loading
from lsp_server.documents.document import Snapshot
from lsp_server.documents.positions import Encoding
from lsp_server.fill.postprocess import replace_invisible
from lsp_server.holes import HoleSpan, splice
from lsp_server.worker import OnDraft

_LINE_EVERY_S = 2.0
_CONFIDENT = 0.9
_UNSURE = 0.5


@contextmanager
def live_draft_display(
    snapshot: Snapshot, spans: tuple[HoleSpan, ...], args: argparse.Namespace
) -> Iterator[tuple[Callable[[Status], None] | None, OnDraft | None]]:
    """Callbacks for each status and each draft, which show on a terminal how the model loads and then the holes,
    coloured by confidence, and erase that afterwards. Both are None without a terminal, or if the output is JSON.
    """
    if not sys.stderr.isatty() or args.json:
        yield None, None
        return
    with Live(console=Console(stderr=True), transient=True, refresh_per_second=20) as live:

        def on_status(status: Status) -> None:
            if progress := describe_loading(status):
                live.update(Text(printable(progress), style="dim"))

        def on_draft(draft: Draft) -> None:
            live.update(Text.assemble((f"step {draft.step}\n", "dim"), coloured_draft(snapshot, spans, draft)))

        yield on_status, on_draft


def progress_printer(*, as_json: bool = False) -> Callable[[str], None]:
    """A function that prints on stderr, at intervals, what a command is doing. `as_json`: it prints nothing."""
    last_s = -math.inf

    def report(activity: str) -> None:
        nonlocal last_s
        if activity and not as_json and time.monotonic() - last_s >= _LINE_EVERY_S:
            last_s = time.monotonic()
            print(f"{printable(activity)} …", file=sys.stderr, flush=True)

    return report


def coloured_draft(snapshot: Snapshot, spans: tuple[HoleSpan, ...], draft: Draft) -> Text:
    """The lines of each hole with the draft in place: green where it is sure, yellow, red where it is not."""
    excerpt_text = Text()
    lines = snapshot.lines
    for span, pieces, confidences in zip(spans, draft.pieces, draft.confidences, strict=True):
        excerpt_text.append(replace_invisible(snapshot.text[lines.line_start(lines.line_of(span.start)) : span.start]))
        for piece, confidence in zip(pieces, confidences, strict=True):
            colour = "bold green" if confidence >= _CONFIDENT else "yellow" if confidence >= _UNSURE else "red"
            excerpt_text.append(replace_invisible(piece), style=colour)
        excerpt_text.append(replace_invisible(snapshot.text[span.end : lines.line_end(lines.line_of(span.end))]) + "\n")
    return excerpt_text


def print_change(args: argparse.Namespace, file: Path, texts: tuple[str, str], as_json: object, outcome: str) -> None:
    """Prints a change of `file`, whose `texts` are those before and after: as JSON, as a diff or as the new text, in
    UTF-8 with unchanged line ends, regardless of the terminal's encoding. With --write it prints the `outcome` alone.
    """
    if args.write:
        print(f"{printable(file)}: {outcome}", file=sys.stderr)
        return
    old, new = texts
    changed = unified_diff(old, new, str(file)) if args.diff else new
    output = json.dumps(as_json, ensure_ascii=False) + "\n" if args.json else changed
    sys.stdout.flush()
    sys.stdout.buffer.write(output.encode(errors="replace"))
    sys.stdout.buffer.flush()


def unified_diff(old: str, new: str, name: str) -> str:
    """A unified diff from the text of the file `name` to the result."""
    a, b = ([*StringIO(text, newline="\n")] for text in (old, new))  # only a newline ends a line of a patch
    inside = name.lstrip("/")  # `git apply` and `patch -p1` accept no absolute path
    lines = difflib.unified_diff(a, b, git_quoted(f"a/{inside}"), git_quoted(f"b/{inside}"))
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def fills_as_json(snapshot: Snapshot, spans: tuple[HoleSpan, ...], texts: Sequence[str]) -> dict[str, object]:
    """The holes and the result of an answer as JSON; lines and columns count from 1, in characters."""
    positions = [snapshot.lines.position(span.start, Encoding.UTF32) for span in spans]
    holes = [
        {"line": line + 1, "column": column + 1, "text": text}
        for (line, column), text in zip(positions, texts, strict=True)
    ]
    return {"holes": holes, "result": splice(snapshot.text, spans, texts)}

"""After an author's edit, are the author's next edits offered, and nothing else?

Each case is played like a user who knows what the author did: make the first change, accept an exact offer, and ask for
the next one. A wrong offer ends the case. In a quiet case any offer is a false one. It prints one JSON object as its
last line.

A file of cases is JSON lines, plain or gzipped. Lines are numbered from 0 and have their line ends.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import msgspec

from inference.bench import command, positive, run
from inference.bench.infilling_tasks import read_as
from inference.bench.server_editor import PATIENCE_S, ScriptedEditor
from inference.models.catalogue import EMBEDDED
from inference.models.family import common_ends

_MORE_OFFERS = 2
"""A case ends after this many more offers than places, in case one is split."""
DEADLINES = {"automatic": 40_000, "invoked": 40_000}
"""A slow machine must give the same offers."""
_REPORT_HALF = Path(__file__).parents[2] / "tests" / "data" / "next_edit" / "report.jsonl.gz"
"""In a checkout."""
_TOKEN = re.compile(r"\w+|[^\w\s]")


class LineChange(msgspec.Struct, frozen=True):
    """Whole lines of a file, from line `line` on: `old` there becomes `new`. One of the two may be empty."""

    line: int
    old: str
    new: str


class EditCase(msgspec.Struct, frozen=True):
    """A case: in `text` the user makes the first of `changes`, at their lines in it, and the others should follow.

    With one change it is quiet: nothing should follow. Without any, the cursor rests at line `cursor`.
    """

    name: str
    language: str
    path: str
    text: str
    changes: tuple[LineChange, ...]
    cursor: int = 0

    @property
    def is_quiet(self) -> bool:
        """Whether nothing should be offered."""
        return len(self.changes) < 2

    @property
    def edited(self) -> str:
        """The text with the first change made."""
        return apply(self.text, self.changes[:1])

    @property
    def finished(self) -> str:
        """The text with all changes made."""
        return apply(self.text, self.changes)


def apply(text: str, changes: Sequence[LineChange]) -> str:
    """`text` with `changes` made. Raises ValueError if a change's old lines are not there."""
    lines = text.splitlines(keepends=True)
    for change in sorted(changes, key=lambda one: one.line, reverse=True):
        end = change.line + change.old.count("\n")
        if "".join(lines[change.line : end]) != change.old:
            raise ValueError(f"line {change.line + 1} differs from the text to change")
        lines[change.line : end] = change.new.splitlines(keepends=True)
    return "".join(lines)


@dataclass(frozen=True)
class CaseResult:
    """The result of one case: its offers in order, each exact or not."""

    case: EditCase
    offers: list[bool]

    @property
    def needed(self) -> int:
        """How many places the author changed afterwards."""
        return max(0, len(self.case.changes) - 1)


def is_exact(before: str, after: str, finished: str) -> bool:
    """Whether an offer gives its lines their final text, token by token, and undoes nothing else."""
    lines = after.splitlines(keepends=True)
    first, same = common_ends(before.splitlines(keepends=True), lines)
    start, stop = (len(_TOKEN.findall("".join(lines[:number]))) for number in (first, len(lines) - same))
    tokens = _TOKEN.findall(after)
    wanted = _TOKEN.findall(finished)
    left = SequenceMatcher(None, tokens, wanted, autojunk=False).get_opcodes()
    touched = (i < stop and j > start if i < j else start < i < stop for tag, i, j, _, _ in left if tag != "equal")
    return not any(touched) and _distance(after, finished) < _distance(before, finished)


def _distance(one: str, other: str) -> int:
    """How many tokens of two texts have no partner."""
    a = _TOKEN.findall(one)
    b = _TOKEN.findall(other)
    same = sum(block.size for block in SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks())
    return len(a) + len(b) - 2 * same


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Plays the cases. Raises BenchError, OSError or ValueError."""
    options: dict[str, Any] = {"statistics": "off", "deadlineMs": DEADLINES, "model": args.model or EMBEDDED}
    cases = _chosen(read_as(EditCase, args.cases), args.limit)
    with tempfile.TemporaryDirectory(prefix="ils-") as folder, ScriptedEditor(Path(folder), options) as editor:
        if args.model:
            editor.wait_until_ready(5 * PATIENCE_S)
        results = [_told(number, play(editor, case, number)) for number, case in enumerate(cases, 1)]
    return {"model": args.model, **figures(results)}


def play(editor: ScriptedEditor, case: EditCase, number: int) -> CaseResult:
    """Plays one case."""
    uri = f"file:///project/{number}/{case.path}"
    text, edited = case.text, case.edited
    editor.open(text, uri, case.language)
    if edited != text:
        first, same = common_ends(text, edited)
        text = editor.replace(uri, text, first, len(text) - same, edited[first : len(edited) - same])
    offers: list[bool] = []

    def is_wanted(before: str, after: str) -> bool:
        offers.append(is_exact(before, after, case.finished))
        return offers[-1] and not case.is_quiet

    most = len(case.changes) + _MORE_OFFERS
    editor.take_offers(uri, text, _end_of_edit(case), most=most, is_wanted=is_wanted)
    editor.close_all()
    return CaseResult(case, offers)


def figures(results: Sequence[CaseResult]) -> dict[str, Any]:
    """Shares are 0 to 1: `precision` of all offers in cases that need edits, `recall` of the needed places."""
    edits = [one for one in results if not one.case.is_quiet]
    quiet = [one for one in results if one.case.is_quiet]
    offered = sum(len(one.offers) for one in edits)
    needed = sum(one.needed for one in edits)
    exact = sum(sum(one.offers) for one in edits)
    found = {
        "cases": len(edits),
        "needed_places": needed,
        "offers": offered,
        "precision": exact / offered if offered else 0.0,
        "recall": exact / needed if needed else 0.0,
        "quiet_cases": len(quiet),
        "false_offers": sum(bool(one.offers) for one in quiet) / len(quiet) if quiet else 0.0,
    }
    return {name: round(value, 4) for name, value in found.items()}


def _chosen(cases: Sequence[EditCase], limit: int | None) -> list[EditCase]:
    """The first cases of both sorts, equally many."""
    edits, quiet = ([one for one in cases if one.is_quiet == wanted] for wanted in (False, True))
    return [*edits[:limit], *quiet[:limit]]


def _end_of_edit(case: EditCase) -> int:
    lines = case.text.splitlines(keepends=True)
    if not case.changes:
        return len("".join(lines[: case.cursor]))
    return len("".join(lines[: case.changes[0].line])) + max(0, len(case.changes[0].new) - 1)


def _told(number: int, result: CaseResult) -> CaseResult:
    """Reports the result of a case on the error stream."""
    marks = "".join("+" if one else "-" for one in result.offers) or "."
    print(f"{number:4} {marks:6} of {result.needed}  {result.case.name}", file=sys.stderr, flush=True)
    return result


def argument_parser() -> argparse.ArgumentParser:
    parser = command("next-edit", __doc__)
    parser.add_argument("--model", metavar="NAME", help="the checkpoint; without one the server uses syntax alone")
    parser.add_argument("--cases", type=Path, default=_REPORT_HALF, metavar="FILE", help="default: %(default)s")
    parser.add_argument(
        "--limit", type=positive, metavar="N", help="only the first N that need edits, and N quiet ones"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    return run(argument_parser(), measure, argv)


if __name__ == "__main__":
    sys.exit(main())

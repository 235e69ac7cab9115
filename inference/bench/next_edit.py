"""Measures whether, after an author's edit, the author's next edits are offered, and nothing else.

Each case is played like a user who knows what the author did: make the first change, accept an exact offer, and ask for
the next one. A wrong offer ends the case. In a quiet case any offer is false. The last line is one JSON object.

A file of cases is JSON lines, plain or gzipped. Lines are numbered from 0 and have their line ends.
"""

import argparse
import re
import sys
import tempfile
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import msgspec

from inference.bench import positive_int
from inference.bench.infilling_tasks import read_tasks_as
from inference.bench.server_editor import ScriptedEditor
from inference.messages import Hunk
from inference.models.catalogue import EMBEDDED
from inference.models.family import common_prefix_and_suffix_lengths

_MORE_OFFERS = 2
"""A case ends after this many more offers than places, in case one is split."""
DEADLINES_MS = {"automatic": 40_000, "invoked": 40_000}
"""Long, so that a slow machine gives the same offers."""
_REPORT_HALF = Path(__file__).parents[2] / "tests" / "data" / "next_edit" / "report.jsonl.gz"
"""Exists only in a checkout."""
_TOKEN = re.compile(r"\w+|[^\w\s]")


class EditCase(msgspec.Struct, frozen=True):
    """A case: in `text` the user makes the first of `changes`, all at their lines in it, and the others should follow.

    With one change it is quiet: nothing should follow. Without any, the cursor rests at line `cursor`.
    """

    name: str
    language: str
    path: str
    text: str
    changes: tuple[Hunk, ...]
    cursor: int = 0

    @property
    def is_quiet(self) -> bool:
        """Whether no edit should be offered."""
        return len(self.changes) < 2

    def text_after(self, count: int) -> str:
        """The text with the first `count` changes. Raises ValueError if the lines to change are not there."""
        lines = self.text.splitlines(keepends=True)
        for change in sorted(self.changes[:count], key=lambda change: change.line, reverse=True):
            end = change.line + change.old.count("\n")
            if "".join(lines[change.line : end]) != change.old:
                raise ValueError(f"{self.name}: line {change.line + 1} differs from the text to change")
            lines[change.line : end] = change.new.splitlines(keepends=True)
        return "".join(lines)


def is_exact_offer(old: str, new: str, finished: str) -> bool:
    """Whether an offer gives its lines their final text, token by token, and undoes nothing else."""
    lines = new.splitlines(keepends=True)
    first, same = common_prefix_and_suffix_lengths(old.splitlines(keepends=True), lines)
    start, stop = (len(_TOKEN.findall("".join(lines[:index]))) for index in (first, len(lines) - same))
    tokens = _TOKEN.findall(new)
    expected = _TOKEN.findall(finished)
    opcodes = SequenceMatcher(None, tokens, expected, autojunk=False).get_opcodes()
    touched = (i < stop and j > start if i < j else start < i < stop for tag, i, j, _, _ in opcodes if tag != "equal")
    return not any(touched) and _token_distance(new, finished) < _token_distance(old, finished)


def _token_distance(old: str, new: str) -> int:
    """The number of tokens of two texts that have no partner."""
    a = _TOKEN.findall(old)
    b = _TOKEN.findall(new)
    same = sum(block.size for block in SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks())
    return len(a) + len(b) - 2 * same


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Plays the cases. Raises BenchError, OSError or ValueError."""
    options: dict[str, Any] = {"statistics": "off", "deadlineMs": DEADLINES_MS, "model": args.model or EMBEDDED}
    cases = read_tasks_as(EditCase, args.cases)
    edits, quiet = ([case for case in cases if case.is_quiet == is_quiet][: args.limit] for is_quiet in (False, True))
    with tempfile.TemporaryDirectory(prefix="ils-") as folder, ScriptedEditor(Path(folder), options) as editor:
        if args.model:
            editor.wait_until_ready()
        offers = [play(editor, case, index) for index, case in enumerate([*edits, *quiet], 1)]
    exact_offers = [exact for case_offers in offers[: len(edits)] for exact in case_offers]
    expected_places = sum(len(case.changes) - 1 for case in edits)
    figures = {
        "cases": len(edits),
        "needed_places": expected_places,
        "offers": len(exact_offers),
        "precision": sum(exact_offers) / max(1, len(exact_offers)),
        "recall": sum(exact_offers) / max(1, expected_places),
        "quiet_cases": len(quiet),
        "false_offers": sum(map(bool, offers[len(edits) :])) / max(1, len(quiet)),
    }
    return {"model": args.model} | {name: round(value, 4) for name, value in figures.items()}


def play(editor: ScriptedEditor, case: EditCase, index: int) -> list[bool]:
    """Plays one case: its offers in order, each exact or not."""
    uri = f"file:///project/{index}/{case.path}"
    text, edited = case.text, case.text_after(1)
    finished = case.text_after(len(case.changes))
    editor.open(uri, text, case.language)
    if edited != text:
        first, same = common_prefix_and_suffix_lengths(text, edited)
        editor.replace(uri, first, len(text) - same, edited[first : len(edited) - same])
    offers: list[bool] = []
    cursor = _end_of_edit(case)
    while len(offers) < len(case.changes) + _MORE_OFFERS and (offer := editor.next_edit(uri, cursor)):
        text = editor.texts[uri]
        offers.append(is_exact_offer(text, offer.apply_to(text), finished))
        if case.is_quiet or not offers[-1]:
            break
        cursor = editor.accept(uri, offer)
    editor.close_all()
    marks = "".join("+" if exact else "-" for exact in offers) or "."
    needed = max(0, len(case.changes) - 1)
    print(f"{index:4} {marks:6} of {needed}  {case.name}", file=sys.stderr, flush=True)
    return offers


def _end_of_edit(case: EditCase) -> int:
    change = case.changes[0] if case.changes else Hunk(case.cursor, "", "")
    above = "".join(case.text.splitlines(keepends=True)[: change.line])
    return len(above) + max(0, len(change.new) - 1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="NAME", help="the checkpoint; without one the server uses syntax alone")
    parser.add_argument("--cases", type=Path, default=_REPORT_HALF, metavar="FILE", help="default: %(default)s")
    parser.add_argument(
        "--limit", type=positive_int, metavar="N", help="only the first N that need edits, and N quiet ones"
    )

"""Cases of `infill-ls bench next-edit`: a file, an edit by its author, and the author's next changes; and their scores.

A file of cases is JSON lines, gzipped if its name ends in .gz. Lines are numbered from 0 and have their line ends.
"""

import gzip
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path

import msgspec

from inference.models.family import common_ends

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
    package: str
    language: str
    path: str
    kind: str
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


def changes(old: str, new: str) -> list[LineChange]:
    """All changes from one text to another, in order."""
    before = old.splitlines(keepends=True)
    after = new.splitlines(keepends=True)
    found = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [
        LineChange(first, "".join(before[first:end]), "".join(after[start:stop]))
        for tag, first, end, start, stop in found
        if tag != "equal"
    ]


def read(file: Path) -> Iterator[EditCase]:
    """The cases of a file, in order. Raises OSError or msgspec.ValidationError."""
    decoder = msgspec.json.Decoder(EditCase)
    with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as lines:
        yield from map(decoder.decode, lines)


@dataclass
class CaseResult:
    """The result of one case: its offers in order, each exact or not, and the final text."""

    case: EditCase
    text: str
    offers: list[bool] = field(default_factory=list)
    first_ms: float | None = None
    """From the edit to the first offer; None if none came."""
    asked_ms: list[float] = field(default_factory=list)

    @property
    def needed(self) -> int:
        """How many places the author changed afterwards."""
        return max(0, len(self.case.changes) - 1)


def is_exact(before: str, after: str, finished: str) -> bool:
    """Whether an offer gives its lines their final text, token by token, and undoes nothing else."""
    first, end = _changed_lines(before, after)
    lines = after.splitlines(keepends=True)
    start, stop = (len(_TOKEN.findall("".join(lines[:number]))) for number in (first, end))
    tokens = _TOKEN.findall(after)
    wanted = _TOKEN.findall(finished)
    left = SequenceMatcher(None, tokens, wanted, autojunk=False).get_opcodes()
    touched = (i < stop and j > start if i < j else start < i < stop for tag, i, j, _, _ in left if tag != "equal")
    return not any(touched) and _distance(after, finished) < _distance(before, finished)


def _changed_lines(before: str, after: str) -> tuple[int, int]:
    """The first line of `after` that is not in `before`, and the line after the last one."""
    old = before.splitlines(keepends=True)
    new = after.splitlines(keepends=True)
    first, same = common_ends(old, new)
    return first, len(new) - same


def _distance(one: str, other: str) -> int:
    """How many tokens of two texts have no partner."""
    a = _TOKEN.findall(one)
    b = _TOKEN.findall(other)
    same = sum(block.size for block in SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks())
    return len(a) + len(b) - 2 * same

"""Cases of `infill-ls bench next-edit`: a file, an edit by its author, and the author's next changes.

A file of cases is JSON lines, gzipped if its name ends in .gz. Lines are numbered from 0 and have their line ends.
"""

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

LANGUAGES = {".py": "python", ".js": "javascript", ".mjs": "javascript", ".ts": "typescript"}


class Change(msgspec.Struct, frozen=True):
    """Whole lines of a file, from line `line` on: `old` there becomes `new`. One of the two may be empty."""

    line: int
    old: str
    new: str


class EditCase(msgspec.Struct, frozen=True):
    """One case. `text` has none of `changes`; the user makes the first, and the others should follow.

    All are at their line in `text`, in order. A case with one change is quiet: nothing should follow. Without any, the
    cursor rests at line `cursor`.
    """

    name: str
    package: str
    language: str
    path: str
    kind: str
    text: str
    changes: tuple[Change, ...]
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


def apply(text: str, changes: Sequence[Change]) -> str:
    """`text` with `changes` made. Raises ValueError if a change's old lines are not there."""
    lines = text.splitlines(keepends=True)
    for change in sorted(changes, key=lambda one: one.line, reverse=True):
        end = change.line + change.old.count("\n")
        if "".join(lines[change.line : end]) != change.old:
            raise ValueError(f"line {change.line + 1} differs from the text to change")
        lines[change.line : end] = change.new.splitlines(keepends=True)
    return "".join(lines)


def read(file: Path) -> Iterator[EditCase]:
    """The cases of a file, in order. Raises OSError or msgspec.ValidationError."""
    decoder = msgspec.json.Decoder(EditCase)
    with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as lines:
        yield from map(decoder.decode, lines)


def write(file: Path, cases: Sequence[EditCase]) -> None:
    """Writes a file of cases; the same cases give the same bytes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    payload = b"".join(msgspec.json.encode(case) + b"\n" for case in cases)
    file.write_bytes(gzip.compress(payload, mtime=0) if file.suffix == ".gz" else payload)

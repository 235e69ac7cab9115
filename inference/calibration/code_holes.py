"""Holes in the lines of any code, at random, the same each time. Knows no language, no model and no tokens."""

import os
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ENDINGS = ".py .pyi .js .ts .tsx .jsx .go .rs .java .kt .c .h .cc .cpp .hpp .cs .rb .php .swift .scala .lua .sh"
_SUFFIXES = frozenset(_ENDINGS.split())
_LARGEST_BYTES = 1 << 20
_MOST_FILES = 20_000
"""Of a larger folder, the first in the order of their names."""
_BEFORE, _AFTER = 1300, 600
"""Characters shown before and after a hole."""
_WORD = re.compile(r"\w+|[^\w\s]+")
_LONGEST_LINE = 160


class NoCodeError(Exception):
    """There is no code to measure on. The message is fit to be shown to a user."""


@dataclass(frozen=True)
class CodeHole:
    """before + solution + after is the text of a file, as far as it is shown. The solution has no line break."""

    before: str
    solution: str
    after: str


def holes(place: Path, count: int, seed: int) -> list[CodeHole]:
    """Up to `count` holes, one in each of as many files of a folder, or all in one file. Raises NoCodeError."""
    chance = random.Random(seed)  # noqa: S311 - which holes, not secrets
    files = [place] if place.is_file() else sorted(_files(place))
    chance.shuffle(files)
    found: list[CodeHole] = []
    for _ in range(count):  # a folder of few files gives several of each
        before = len(found)
        for file in files[: 4 * count]:
            if len(found) < count:
                found += _holes(_text(file), chance)
        if len(found) in (before, count):
            break
    if not found:
        raise NoCodeError(f"{place}: no code to measure on; give a file or a folder of code with --on")
    return found


def _files(folder: Path) -> Iterator[Path]:
    """The files of code in a folder. Links are not followed, tests and vendored packages are not looked into."""
    seen = 0
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in ("site-packages", "node_modules", "test", "tests"))
        for name in sorted(names):
            file = Path(root, name)
            if file.suffix in _SUFFIXES and file.is_file() and not file.is_symlink():
                seen += 1
                yield file
        if seen > _MOST_FILES:
            return


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > _LARGEST_BYTES:
            return ""
        return file.read_bytes().decode().replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError):
        return ""


def _holes(text: str, chance: random.Random) -> list[CodeHole]:
    """One hole: a line from one of its words on, or from there to a later word. None in a text without such a line."""
    lines = text.split("\n")
    usable = [number for number, line in enumerate(lines) if _is_usable(line)]
    if not usable:
        return []
    number = chance.choice(usable)
    words = list(_WORD.finditer(lines[number]))
    first = chance.randrange(len(words))
    last = len(words) - 1 if chance.random() < 0.5 else chance.randrange(first, len(words))
    start = sum(len(line) + 1 for line in lines[:number])
    begin, end = start + words[first].start(), start + words[last].end()
    return [CodeHole(text[max(0, begin - _BEFORE) : begin], text[begin:end], text[end : end + _AFTER])]


def _is_usable(line: str) -> bool:
    """Code of a usual length, with a word, that is no comment by the usual signs."""
    stripped = line.strip()
    return (
        len(line) <= _LONGEST_LINE
        and not stripped.startswith(("#", "//", "*", "/*", "--"))
        and any(len(word[0]) > 1 for word in _WORD.finditer(stripped))
    )

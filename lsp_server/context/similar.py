"""Ranks pieces of texts by how much they are like some lines: BM25 over words and the parts of words."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO
from itertools import chain

PIECE_LINES = 24
_STEP_LINES = 12
_AROUND_LINES = 10
"""On either side."""
_WORD = re.compile(r"[^\W\d]\w+")
_PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_MAX_LINE_CHARACTERS = 1_000
"""A piece with a longer line is data, or minified."""
_OFTEN, _LENGTHS = 1.2, 0.75
"""The usual constants of BM25."""
_KEPT_TEXTS = 32
_KEPT_WORDS = 20_000


@dataclass(frozen=True)
class Piece:
    """Some lines of a text, from line `start` (from 0), and how often each word is in them."""

    start: int
    text: str
    words: Counter[str]


def lines_of(text: str) -> list[str]:
    """The lines with their ends, as an editor counts them: `str.splitlines` would also break at a form feed."""
    return [*StringIO(text, newline="")]


@lru_cache(maxsize=_KEPT_TEXTS)
def pieces(text: str) -> tuple[Piece, ...]:
    """Overlapping pieces of all of a text."""
    return tuple(pieces_of(lines_of(text)))


def pieces_of(lines: Sequence[str], first: int = 0) -> Iterator[Piece]:
    """The same of some lines, which begin at line `first`."""
    for start in range(0, max(1, len(lines) - _STEP_LINES), _STEP_LINES):
        part = lines[start : start + PIECE_LINES]
        if all(len(line) <= _MAX_LINE_CHARACTERS for line in part):
            joined = "".join(part)
            yield Piece(first + start, joined, Counter(_words(joined)))


def around(text: str, line: int) -> str:
    """The lines around a line (from 0), but for itself: what is typed there must not choose the pieces."""
    lines = lines_of(text)
    return "".join(lines[max(0, line - _AROUND_LINES) : line] + lines[line + 1 : line + 1 + _AROUND_LINES])


def ranked(lines: str, among: Sequence[tuple[str, Piece]]) -> Iterator[tuple[str, Piece]]:
    """The pieces, each with its file's name, that share words with `lines`: likest first, and none overlaps another."""
    found_in = Counter(word for _, piece in among for word in piece.words)
    usual = sum(piece.words.total() for _, piece in among) / max(1, len(among))
    weights = {
        word: math.log(1 + (len(among) - found_in[word] + 0.5) / (found_in[word] + 0.5)) for word in set(_words(lines))
    }
    scored = [(_likeness(weights, piece, usual), number) for number, (_, piece) in enumerate(among)]
    kept: list[tuple[str, Piece]] = []
    for score, number in sorted(scored, key=lambda pair: -pair[0]):
        name, piece = among[number]
        if score > 0 and not any(other == name and abs(one.start - piece.start) < PIECE_LINES for other, one in kept):
            kept.append((name, piece))
            yield name, piece


def _likeness(weights: dict[str, float], piece: Piece, usual: float) -> float:
    norm = _OFTEN * (1 - _LENGTHS + _LENGTHS * piece.words.total() / usual) if usual else 1.0
    counts = ((weight, piece.words[word]) for word, weight in weights.items() if word in piece.words)
    return sum(weight * count * (_OFTEN + 1) / (count + norm) for weight, count in counts)


def _words(text: str) -> Iterator[str]:
    return chain.from_iterable(map(_split, _WORD.findall(text)))


@lru_cache(maxsize=_KEPT_WORDS)
def _split(word: str) -> tuple[str, ...]:
    """A word and its parts, in lower case."""
    parts = [part.lower() for part in _PART.findall(word) if len(part) > 1]
    return (word.lower(), *(parts if len(parts) > 1 else ()))

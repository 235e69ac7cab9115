"""Ranks chunks of texts by their similarity to some lines: BM25 over words and the parts of words."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO
from itertools import chain

CHUNK_LINES = 24
_STEP_LINES = 12
_AROUND_LINES = 10
"""How many lines on either side to compare with."""
_WORD = re.compile(r"[^\W\d]\w+")
_PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_MAX_LINE_CHARACTERS = 1_000
"""A chunk with a longer line is data, or minified."""
_K1, _B = 1.2, 0.75
_CACHED_TEXTS = 32
_CACHED_WORDS = 20_000


@dataclass(frozen=True)
class CodeChunk:
    """Some lines of a text, from line `start` (from 0), and how often each word is in them."""

    start: int
    text: str
    words: Counter[str]


def split_lines(text: str) -> list[str]:
    """The lines with their ends, as an editor counts them: `str.splitlines` would also break at a form feed."""
    return [*StringIO(text, newline="")]


@lru_cache(maxsize=_CACHED_TEXTS)
def split_chunks(text: str) -> tuple[CodeChunk, ...]:
    """Overlapping chunks of all of a text."""
    return tuple(chunks_of_lines(split_lines(text)))


def chunks_of_lines(lines: Sequence[str], first: int = 0) -> Iterator[CodeChunk]:
    """Overlapping chunks of lines; `first` is the number of the first line."""
    for start in range(0, max(1, len(lines) - _STEP_LINES), _STEP_LINES):
        part = lines[start : start + CHUNK_LINES]
        if all(len(line) <= _MAX_LINE_CHARACTERS for line in part):
            joined = "".join(part)
            yield CodeChunk(first + start, joined, Counter(_words(joined)))


def lines_around(text: str, line: int) -> str:
    """The lines around line `line` (from 0) without it: the text being typed must not influence the choice."""
    lines = split_lines(text)
    return "".join(lines[max(0, line - _AROUND_LINES) : line] + lines[line + 1 : line + 1 + _AROUND_LINES])


def rank_chunks(lines: str, chunks: Sequence[tuple[str, CodeChunk]]) -> Iterator[tuple[str, CodeChunk]]:
    """The chunks, each with its file's name, that share words with `lines`: most similar first, without overlaps."""
    document_frequency = Counter(word for _, chunk in chunks for word in chunk.words)
    mean_length = sum(chunk.words.total() for _, chunk in chunks) / max(1, len(chunks))
    weights = {
        word: math.log(1 + (len(chunks) - document_frequency[word] + 0.5) / (document_frequency[word] + 0.5))
        for word in set(_words(lines))
    }
    scored = [(_bm25(weights, chunk, mean_length), index) for index, (_, chunk) in enumerate(chunks)]
    selected: list[tuple[str, CodeChunk]] = []
    for score, index in sorted(scored, key=lambda pair: -pair[0]):
        name, chunk = chunks[index]
        if score > 0 and not any(
            other_name == name and abs(other.start - chunk.start) < CHUNK_LINES for other_name, other in selected
        ):
            selected.append((name, chunk))
            yield name, chunk


def _bm25(weights: dict[str, float], chunk: CodeChunk, mean_length: float) -> float:
    norm = _K1 * (1 - _B + _B * chunk.words.total() / mean_length) if mean_length else 1.0
    counts = ((weight, chunk.words[word]) for word, weight in weights.items() if word in chunk.words)
    return sum(weight * count * (_K1 + 1) / (count + norm) for weight, count in counts)


def _words(text: str) -> Iterator[str]:
    return chain.from_iterable(map(_split, _WORD.findall(text)))


@lru_cache(maxsize=_CACHED_WORDS)
def _split(word: str) -> tuple[str, ...]:
    parts = [part.lower() for part in _PART.findall(word) if len(part) > 1]
    return (word.lower(), *(parts if len(parts) > 1 else ()))

"""Cuts a long text, so that no more of it becomes tokens than a canvas or a prefix can use.

Tokenising 15 million characters in one call takes seconds and gigabytes, and blocks the rest of the process. Every cut
depends only on the text before it, so it stays the same while the user types after it.
"""

import re
from collections.abc import Iterator

MAX_CHARS_PER_TOKEN = 16
"""A text with more characters than this per token of room is assumed not to fit, and not tokenised."""

_CHUNK_CHARS = 16_384
"""The text tokenised in one call: some 20 to 50 ms."""

_MAX_STATEMENT_CHARS = 256
"""How far before the cut to look for the end of a statement or word, in a text without line breaks."""

_STATEMENTS = re.compile(r".*[;{}\s]", re.DOTALL)
_WORDS = re.compile(r".*\W", re.DOTALL)

_WINDOW_PARTS = 4
"""A window over a long text moves in steps of this part of its size, to keep its start, and thus the encoded prefix."""


def window_start(text: str, max_chars: int) -> int:
    """Where to start reading the end of a long text: a line start, at most twice `max_chars` before the end."""
    start = token_window_start(len(text), max_chars)
    return 0 if start == 0 else _cut_point(text, start, max_chars)


def token_window_start(count: int, max_tokens: int) -> int:
    """The index where about the last `max_tokens` of `count` tokens begin. It moves in steps, like `window_start`."""
    step = max(1, max_tokens // _WINDOW_PARTS)
    return max(0, -(-(count - max_tokens) // step) * step)


def first_lines(text: str, max_chars: int) -> str:
    """The first whole lines of a text, at most `max_chars`; part of the first line if that is longer."""
    if len(text) <= max_chars:
        return text
    end = text.rfind("\n", 0, max_chars)
    return text[: end + 1 if end > 0 else max_chars]


def split_for_tokenizer(text: str) -> Iterator[str]:
    """Splits the text into pieces to tokenise one by one. All but the last end at a line's or a word's end."""
    start = 0
    while len(text) - start > _CHUNK_CHARS:
        end = _cut_point(text, start + _CHUNK_CHARS, _CHUNK_CHARS // 2)
        yield text[start:end]
        start = end
    yield text[start:] if start else text


def _cut_point(text: str, offset: int, max_chars: int) -> int:
    """The end of a line, else of a statement, else of a word, at most `max_chars` characters before `offset`."""
    line = text.rfind("\n", max(0, offset - max_chars), offset)
    if line >= 0:
        return line
    first = max(0, offset - min(max_chars, _MAX_STATEMENT_CHARS))
    match = _STATEMENTS.match(text, first, offset) or _WORDS.match(text, first, offset)
    return match.end() if match else offset

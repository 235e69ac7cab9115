"""Zeta 2.1's numbered blocks: splits a region, and parses an answer that rewrites some of the blocks.

The rules are those of `V0318SeedMultiRegions` in the crate zeta_prompt of zed-industries/zed. Block n stands between
marks n and n + 1. An answer of one repeated mark changes nothing.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

_MARK = re.compile(r"<\|marker_(\d{1,4})\|>")
_MIN_LINES, _MAX_LINES, _NUDGE_LINES = 6, 16, 5
"""The size of a block, and how far its start may move down to a line that does not only close something."""
_END = re.compile(r"[}\])].*|(?:break|continue|return|throw|end);*")


def cut_blocks(text: str) -> list[str]:
    """The blocks of a text, preferably cut after blank lines."""
    lines = [line for line in re.split(r"(?<=\n)", text) if line]
    starts, row = [0], 0
    while row < len(lines):
        size = row - starts[-1]
        follows_blank = row > 0 and lines[row].strip() and not lines[row - 1].strip()
        near = range(row, min(len(lines), row + _NUDGE_LINES))
        start = next((index for index in near if (code := lines[index].strip()) and not _END.fullmatch(code)), row)
        if (follows_blank and size >= _MIN_LINES and len(lines) - start >= _MIN_LINES) or size >= _MAX_LINES:
            starts.append(start)
            row = start
        row += 1
    return ["".join(lines[start:end]) for start, end in pairwise([*starts, len(lines)])]


def add_marks(blocks: Sequence[str], first: int = 1) -> str:
    """The text of the blocks with their marks, numbered from `first`."""
    return "".join(f"<|marker_{index}|>{text}" for index, text in enumerate([*blocks, ""], first))


def blocks_between_marks(text: str) -> list[str]:
    """The blocks of a text whose first mark is missing."""
    return _MARK.split(text)[:-1:2]


def remove_marks(text: str) -> str:
    """The blocks without their marks."""
    return _MARK.sub("", text)


def rewritten_blocks(blocks: Sequence[str], answer: str) -> tuple[int, int, str]:
    """The range [first, end) of the rewritten blocks and their new text; all blocks, unchanged, if none is."""
    marks = list(_MARK.finditer(answer))
    numbers = [int(mark[1]) for mark in marks] or [0]
    first, last = numbers[0], numbers[-1]
    if not 1 <= first < last <= len(blocks) + 1 or any(low >= high for low, high in pairwise(numbers)):
        return 0, len(blocks), "".join(blocks)
    return first - 1, last - 1, remove_marks(answer[marks[0].end() : marks[-1].start()])

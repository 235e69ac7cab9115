"""Cuts what a fill repeats from around it: the start of its line, the rest of its line, the lines below."""

from itertools import takewhile
from typing import Protocol

from lsp_server.carve.brackets import in_expression
from lsp_server.fill.fitting.around import Around
from lsp_server.syntax.languages import CLOSERS
from lsp_server.syntax.lines import is_blank, is_word
from lsp_server.syntax.scanning import comment_at_end, pair_end

_MIN_LINES = 2
"""This many lines equal to the lines below count as repetition even if the fill has more lines after them."""


class LeastBroken(Protocol):
    """The fill that leaves the fewest errors."""

    def __call__(self, around: Around, *fills: str) -> str: ...


def drop_repeated_line_start(around: Around, fill: str) -> str:
    """`fill` without a repeat of the start of its line: `x = ` before `x = 1` leaves `1`.

    Cuts nothing after an opening bracket, and no start without a letter, which may be data.
    """
    start = around.before.lstrip()
    bare = start.rstrip()
    if around.starts_with or not _has_letter(start) or bare[-1] in CLOSERS:
        return fill
    rest = fill.lstrip(" \t")
    follows = rest[len(start) : len(start) + 1]
    goes_on = start == bare and (follows == "=" or (is_word(start[-1]) and is_word(follows)))
    if not rest.startswith(start) or goes_on:
        return fill
    rest = rest[len(start) :]
    return rest.lstrip(" \t") if start != bare else rest


def repeats_line_above(around: Around, fill: str) -> bool:
    """Whether a statement merely repeats the line above; inside brackets that may be data."""
    first = fill.removeprefix(around.starts_with).partition("\n")[0] if around.at_line_start else ""
    return _has_letter(first) and not in_expression(around.brackets) and first.strip() == around.above.strip()


def cut_repeated_line_end(around: Around, fill: str, least_broken: LeastBroken) -> str:
    """`fill` without an ending that repeats what follows. Where a quote may match, the parse decides."""
    cuts = _line_end_cuts(around, fill.rstrip())
    if around.literal:  # prose has no pairs, but the full stop or quote may be intended
        return next((cut for cut in cuts if _has_letter(fill[len(cut) :])), fill)
    safe = next((cut for cut in cuts if not _splits_quotes(around, cut, fill)), None)
    inside = fill.find(around.after.strip()) if not cuts else -1  # everything that follows, and more
    doubtful = [fill[: pair_end(fill, inside, around.table)]] if inside > 0 else cuts[:1]
    return least_broken(around, fill, *doubtful) if safe is None else safe


def cut_comment_before_code(around: Around, fill: str) -> str:
    """`fill` without a comment that would swallow the rest of the line."""
    at = -1 if is_blank(around.after) else comment_at_end(fill.rstrip(), around.table)
    return fill if at < 0 else fill[:at].rstrip()


def _line_end_cuts(around: Around, fill: str) -> list[str]:
    """`fill` minus each ending that matches the start of the rest of the line, but with its own closing brackets;
    shortest first.
    """
    cuts = []
    for after in (around.after, around.after.lstrip()):
        for length in range(min(len(fill), len(after)), 0, -1):
            if fill.endswith(after[:length]) and not is_blank(after[:length]):
                kept, rest = fill[:-length], after[length : length + 1]
                splits_word = is_word(kept[-1:]) and is_word(after[0])
                if not (splits_word or (is_word(after[length - 1]) and is_word(rest))):
                    cuts.append(fill[: pair_end(fill, len(kept), around.table)])
    return sorted((cut for cut in cuts if cut != fill), key=len)


def _splits_quotes(around: Around, kept: str, fill: str) -> bool:
    """Whether the cut may remove the partner of a quote in the fill."""
    repeated = fill.rstrip()[len(kept) :]
    return any(repeated.count(quote) % 2 for quote in around.table.quotes)


def cut_repeated_lines(around: Around, fill: str) -> str:
    """`fill` up to where it starts repeating the lines below the hole."""
    lines = fill.split("\n")
    if not is_blank(around.after):
        return fill
    for index in range(0 if around.at_line_start else 1, len(lines)):
        kept = "\n".join(lines[:index])
        if _repeats_below(around, index, lines) and pair_end(fill, len(kept), around.table) == len(kept):
            return kept
    return fill


def _repeats_below(around: Around, index: int, lines: list[str]) -> bool:
    """Whether the fill's lines from `index` on equal the first lines below, or start with several of them."""
    first = around.before + lines[0] if index == 0 else lines[index]
    rest = [line.rstrip() for line in (first, *lines[index + 1 :]) if not is_blank(line)]
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(rest, around.below, strict=False)))
    return _has_letter("".join(rest[:same])) and (same == len(rest) or same >= _MIN_LINES)


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))

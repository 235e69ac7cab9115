"""Find the first bracket that a fill closes but did not open, and the brackets open at a hole without a tree."""

from collections.abc import Sequence

from lsp_server.carve.brackets import OpenBracket
from lsp_server.syntax.languages import CLOSERS, LanguageTable
from lsp_server.syntax.scanning import brackets_of, unclosed, unopened

_WINDOW_CHARACTERS = 4000


def cut_at_foreign_closer(fill: str, brackets: Sequence[OpenBracket], table: LanguageTable) -> str:
    """`fill` up to the first bracket that it closes but did not open, unless the text before the hole needs it.

    `brackets` are those open at the hole, outermost first. One whose partner follows the hole must stay open.
    """
    own: list[str] = []
    outer = list(brackets)
    for at, bracket in brackets_of(fill, table):
        if bracket in CLOSERS:
            own.append(CLOSERS[bracket])
        elif own and own[-1] == bracket:
            own.pop()
        elif not own and outer and not outer[-1].closed and CLOSERS[outer[-1].kind] == bracket:
            outer.pop()
        else:
            return fill[:at]
    return fill


def open_in_text(text: str, start: int, end: int, table: LanguageTable) -> list[OpenBracket]:
    """The brackets open at a hole [start, end), judged by the text near it: for languages without a tree."""
    first = max(start - _WINDOW_CHARACTERS, 0)
    before = unclosed(text[first:start], table)
    closers = unopened(text[end : end + _WINDOW_CHARACTERS], table)
    partners = [*closers[: len(before)], *[""] * (len(before) - len(closers))][::-1]
    return [
        OpenBracket(bracket, first + at, CLOSERS[bracket] == partner, "")
        for (at, bracket), partner in zip(before, partners, strict=True)
    ]

"""Brackets of a piece of text that may be anything: strings and comments are passed over by their looks."""

import re
from collections.abc import Iterator, Sequence
from functools import cache

from lsp_server.carve.brackets import Open
from lsp_server.carve.languages import CLOSERS, Table

_BRACKETS = "()[]{}"
_WINDOW_CHARACTERS = 4000


@cache
def _scanner(table: Table) -> re.Pattern[str]:
    """Strings, comments and brackets. A mark behind `$`, `{` or `&` starts no comment: `$#` is a shell's variable."""
    comment = rf"|(?<![${{&]){re.escape(table.line_comment)}[^\r\n]*" if table.line_comment else ""
    block = r"|/\*(?s:.*?)\*/" if ("/*", "*/") in table.block_comments else ""
    return re.compile(f"{table.quoted}{block}{comment}|[{re.escape(_BRACKETS)}]")


def brackets_of(text: str, table: Table) -> Iterator[tuple[int, str]]:
    """Each bracket outside strings and comments, with its offset."""
    for match in _scanner(table).finditer(text):
        if match.group() in _BRACKETS:
            yield match.start(), match.group()


def comment_start(text: str, table: Table) -> int:
    """Where the first line comment outside strings begins; -1: there is none."""
    matches = _scanner(table).finditer(text) if table.line_comment else ()
    return next((match.start() for match in matches if match.group().startswith(table.line_comment)), -1)


def unclosed(text: str, table: Table) -> list[tuple[int, str]]:
    """The brackets that `text` opens and does not close, with their offsets."""
    stack: list[tuple[int, str]] = []
    for at, bracket in brackets_of(text, table):
        if bracket in CLOSERS:
            stack.append((at, bracket))
        elif stack and CLOSERS[stack[-1][1]] == bracket:
            stack.pop()
    return stack


def cut_at_foreign_closer(fill: str, brackets: Sequence[Open], table: Table) -> str:
    """`fill` up to the first bracket it closes without having opened it, unless the text before the hole needs it.

    `brackets` are those open at the hole, outermost first: one whose partner stands behind the hole must stay open.
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


def open_in_text(text: str, start: int, end: int, table: Table) -> list[Open]:
    """The brackets open at a hole [start, end), by the text near it: for languages without a tree."""
    first = max(start - _WINDOW_CHARACTERS, 0)
    before = unclosed(text[first:start], table)
    closers = _closers_behind(text[end : end + _WINDOW_CHARACTERS], table)
    partners = [*closers[: len(before)], *[""] * (len(before) - len(closers))][::-1]
    return [
        Open(bracket, first + at, CLOSERS[bracket] == partner, "")
        for (at, bracket), partner in zip(before, partners, strict=True)
    ]


def _closers_behind(text: str, table: Table) -> list[str]:
    """The closing brackets in `text` that nothing in it opened."""
    depth, found = 0, []
    for _, bracket in brackets_of(text, table):
        if bracket in CLOSERS:
            depth += 1
        elif depth:
            depth -= 1
        else:
            found.append(bracket)
    return found

"""Counts the errors that fills add to a tree, by an incremental parse. Without time for one, breakage is unknown."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tree_sitter import Tree

from lsp_server.carve import Span
from lsp_server.carve.brackets import OpenBracket
from lsp_server.carve.segments import splice
from lsp_server.syntax.languages import CLOSERS, LanguageTable, table_of
from lsp_server.syntax.parsing import Limit, edit_tree, parse
from lsp_server.syntax.scanning import brackets_of, unclosed, unopened
from lsp_server.syntax.source import Source

MAX_PARSE_S = 0.25
"""Processor time for one parse; in a sound file of 5,000 lines it takes a few milliseconds."""
_WINDOW_CHARACTERS = 4000


@dataclass
class Patience:
    """Two deadlines (by `time.monotonic`): one for parsing, one for fitting further holes. `stop` ends both."""

    parse_until_s: float = float("inf")
    until_s: float = float("inf")
    _stopped: bool = False
    _parse: Limit = field(default_factory=lambda: Limit(MAX_PARSE_S))

    @classmethod
    def of(cls, left_s: float) -> "Patience":
        """Patience for `left_s` from now; parses get half of it."""
        now_s = time.monotonic()
        return cls(now_s + left_s / 2, now_s + left_s)

    @property
    def is_over(self) -> bool:
        """Whether to stop fitting more holes."""
        return self._stopped or time.monotonic() >= self.until_s

    def stop(self) -> None:
        """The result is no longer wanted."""
        self._stopped = True
        self._parse.stop()

    def for_parse(self) -> Limit | None:
        """The time limit of the next parse; None: do not parse."""
        if self._stopped or time.monotonic() >= self.parse_until_s:
            return None
        self._parse = Limit(MAX_PARSE_S)
        return self._parse


def cut_at_foreign_closer(fill: str, brackets: Sequence[OpenBracket], table: LanguageTable) -> str:
    """`fill` cut at the first bracket that it closes but did not open, unless one of `brackets` before it needs it."""
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
    """The brackets open at a hole [start, end), guessed from nearby text: for languages without a tree."""
    first = max(start - _WINDOW_CHARACTERS, 0)
    before = unclosed(text[first:start], table)
    closers = unopened(text[end : end + _WINDOW_CHARACTERS], table)
    partners = [*closers[: len(before)], *[""] * (len(before) - len(closers))][::-1]
    return [
        OpenBracket(bracket, first + at, CLOSERS[bracket] == partner, "")
        for (at, bracket), partner in zip(before, partners, strict=True)
    ]


_MAX_COUNTED = 100
"""Stop counting here: in a text this broken the count says nothing about a fill."""


def order(
    source: Source, spans: Sequence[Span], candidates: Sequence[tuple[str, ...]], patience: Patience | None = None
) -> list[int]:
    """The indices of `candidates`, with those that add errors to the tree moved last, compared with a plain name in the
    holes. Without a tree the order stays. Raises ValueError as `splice`, if there is a choice.
    """
    if source.tree is None or len(candidates) < 2:  # parsing takes time, and one candidate leaves no choice
        return list(range(len(candidates)))
    allowed = _allowed_errors(source, spans, patience)
    breaks = [_is_more(errors_with(source, spans, fills, patience), allowed) for fills in candidates]
    return sorted(range(len(candidates)), key=breaks.__getitem__)


def breaks_parse(source: Source, spans: Sequence[Span], fills: Sequence[str], patience: Patience | None = None) -> bool:
    """Whether `fills` add errors to the tree; False if unknown. Raises as `splice`."""
    return _is_more(errors_with(source, spans, fills, patience), _allowed_errors(source, spans, patience))


def errors_with(
    source: Source, spans: Sequence[Span], fills: Sequence[str], patience: Patience | None = None
) -> int | None:
    """The number of errors in the tree with `fills` in place of `spans`; None if unknown. Raises as `splice` does."""
    text = splice(source.text, spans, fills)
    limit = (patience or Patience()).for_parse()
    if source.tree is None or limit is None:
        return None
    edited = source.tree.copy()
    for span, fill in reversed(list(zip(spans, fills, strict=True))):  # backwards, so that earlier offsets stay valid
        edit_tree(edited, source.text, span.start, span.end, fill)
    filled = parse(source.language_id, text, edited, limit=limit)
    return None if filled is None else errors_of(filled)


def least_broken(source: Source, span: Span, *fills: str, patience: Patience | None = None) -> str:
    """The fill that leaves the fewest errors; the first one on a tie or if unknown."""
    if len(set(fills)) == 1:
        return fills[0]
    best, least = fills[0], None
    for fill in fills:
        errors = errors_with(source, [span], [fill], patience)
        if errors is None:
            return fills[0]
        if least is None or errors < least:
            best, least = fill, errors
    return best


def errors_of(tree: Tree) -> int:
    """The number of error or missing nodes. Visits only branches that contain one."""
    found, cursor = 0, tree.walk()
    while found < _MAX_COUNTED:
        node = cursor.node
        found += node is not None and (node.is_error or node.is_missing)
        if node is not None and node.has_error and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return found
    return found


def _is_more(errors: int | None, allowed: int) -> bool:
    return errors is not None and errors > allowed


def _allowed_errors(source: Source, spans: Sequence[Span], patience: Patience | None) -> int:
    table = table_of(source.language_id)
    least = errors_of(source.tree) if source.tree else 0
    for name in dict.fromkeys((table.name, table.name + table.statement_end)):
        errors = errors_with(source, spans, [span.starts_with + name for span in spans], patience)
        least = least if errors is None else min(least, errors)
    return least

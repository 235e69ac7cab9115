"""Makes one fill ready to insert in a few steps, each of which only cuts or restyles it."""

import re
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from inference.messages import HoleKind
from lsp_server.carve import Span
from lsp_server.fill.fitting.around import Around, look_around
from lsp_server.fill.fitting.breakage import cut_at_foreign_closer, least_broken
from lsp_server.fill.fitting.overlap import (
    cut_comment_before_code,
    cut_repeated_line_end,
    cut_repeated_lines,
    drop_repeated_line_start,
    repeats_line_above,
)
from lsp_server.fill.fitting.patience import Patience
from lsp_server.fill.fitting.unseen import brings_unseen
from lsp_server.syntax.lines import eol_at, indent_step, indentation, is_blank, is_deeper, plain_line_ends
from lsp_server.syntax.scanning import pair_end
from lsp_server.syntax.source import Source
from lsp_server.syntax.strings_and_comments import StringOrComment
from lsp_server.syntax.view import View

_BROKEN = "\ufffd"
"""A decoder writes this for bytes that form no character."""
_LEADING_BLANK_LINES = re.compile(r"(?:[ \t]*\n)+[ \t]*")


class Drop(StrEnum):
    """Why a fill is not worth showing, worded to follow `what it wrote`."""

    UNREADABLE = "is no valid text"
    UNSEEN = "has invisible characters"
    NOT_AS_BEGUN = "does not begin with the typed text"
    EMPTY = "is empty"
    CLOSES = "only ends what it did not begin"
    REPEATS_BELOW = "repeats the lines below"
    REPEATS_BEHIND = "repeats the text behind the hole"
    REPEATS_ABOVE = "repeats the line above"
    UNCHANGED = "stands there already"


def in_words(drops: Mapping[Drop, int]) -> str:
    """All reasons with their counts, most frequent first."""
    ordered = sorted(drops.items(), key=lambda item: -item[1])
    return ", ".join(f"{reason.value} ({count}\u00d7)" for reason, count in ordered)


class Fitter:
    """Fits fills to the holes of one source, in one thread. `drops` counts the reasons for showing nothing."""

    def __init__(self, source: Source, patience: Patience | None = None) -> None:
        self._source = source
        self._patience = patience or Patience()
        self._view = View.of(source)
        self.drops = Counter[Drop]()
        self._known: tuple[Span, Around] | None = None

    def fit(self, span: Span, fill: str) -> str | None:
        """The text to insert for `span`, starting with `span.starts_with`; None if nothing is worth showing.

        Cuts what repeats the hole's surroundings, and adopts their indentation and line ends.
        """
        found = self._fitted(self._look_around(span), fill)
        if not isinstance(found, Drop) and brings_unseen(found, self._source.text, span.starts_with):
            found = Drop.UNSEEN
        if isinstance(found, Drop):
            self.drops[found] += 1
            return None
        return found

    def _fitted(self, around: Around, fill: str) -> str | Drop:
        fill = plain_line_ends(fill)
        if _BROKEN in fill or not fill.startswith(around.starts_with):
            return Drop.UNREADABLE if _BROKEN in fill else Drop.NOT_AS_BEGUN
        fill = trim_start(around, fill)
        if around.span.single_line:
            fill = fill.partition("\n")[0]
        if _is_empty(around, fill):
            return Drop.EMPTY
        if _is_empty(around, fill := self._inside(around, fill)):
            return Drop.CLOSES
        if not around.literal and _is_empty(around, fill := cut_repeated_lines(around, fill)):
            return Drop.REPEATS_BELOW
        if _is_empty(around, fill := trim_end(around, cut_repeated_line_end(around, fill, self._least_broken))):
            return Drop.REPEATS_BEHIND
        return self._ready(around, fill)

    def _ready(self, around: Around, fill: str) -> str | Drop:
        text, span = self._source.text, around.span
        if fill == plain_line_ends(text[span.start : span.end]):
            return Drop.UNCHANGED
        if repeats_line_above(around, fill):
            return Drop.REPEATS_ABOVE
        return close_on_new_line(around, fill).replace("\n", eol_at(text, span.start))

    def _look_around(self, span: Span) -> Around:
        """The surroundings of a hole, shared by its candidates."""
        if self._known is None or self._known[0] != span:
            self._known = span, look_around(self._source, span, self._view)
        return self._known[1]

    def _inside(self, around: Around, fill: str) -> str:
        """`fill` up to the point where it would end something opened before it: a block, brackets, a string."""
        if around.literal:
            return self._fit_literal(around, around.literal, fill)
        fill = cut_comment_before_code(around, drop_repeated_line_start(around, fill))
        fill = stay_in_block(around, indent_like(around, self._source.text, fill))
        return self._least_broken(around, cut_at_foreign_closer(fill, around.brackets, around.table), fill)

    def _fit_literal(self, around: Around, literal: StringOrComment, fill: str) -> str:
        """A fill inside a comment or string, cut before its end; a parse tells whether a string ends there."""
        closer = literal.closer
        at = fill.find(closer) if closer else -1
        while at > 0 and fill[at - 1] == "\\":
            at = fill.find(closer, at + 1)
        return fill if at < 0 or literal.unfinished else self._least_broken(around, fill[:at], fill)

    def _least_broken(self, around: Around, *fills: str) -> str:
        return least_broken(self._source, around.span, *fills, patience=self._patience)


def _is_empty(around: Around, fill: str) -> bool:
    """Whether a fill has shrunk to what it had to begin with."""
    return not fill.startswith(around.starts_with) or is_blank(fill[len(around.starts_with) :])


def trim_start(around: Around, fill: str) -> str:
    """`fill` without leading blank lines, and without leading white space that the text before it already has."""
    head = around.starts_with
    rest = fill[len(around.starts_with) :]
    if around.literal or (head and not is_blank(head)):
        return fill
    if around.at_line_start and not around.span.single_line:
        rest = _LEADING_BLANK_LINES.sub("", rest, count=1) if _LEADING_BLANK_LINES.match(rest) else rest
    if (around.before + head)[-1:] in (" ", "\t"):
        rest = rest.lstrip(" \t")
    return head + rest


def indent_like(around: Around, text: str, fill: str) -> str:
    """`fill` indented with tabs or spaces, like the text around it."""
    if "\n" not in fill:
        return fill
    step = indent_step(text, around.span.start, around.table.indent)
    with_tabs = "\t" in (around.indent or step)
    lines = fill.split("\n")
    return "\n".join([lines[0], *(_restyled(line, with_tabs, step) for line in lines[1:])])


def _restyled(line: str, with_tabs: bool, step: str) -> str:
    lead = indentation(line, 0)
    if with_tabs:
        return lead.replace("    ", "\t") + line[len(lead) :]
    return lead.replace("\t", "    " if "\t" in step else step) + line[len(lead) :]


def stay_in_block(around: Around, fill: str) -> str:
    """`fill` up to the first line indented less than its first one, outside strings, where indentation makes blocks."""
    if not around.table.by_indentation or not around.at_line_start or around.literal:
        return fill
    lines = fill.split("\n")
    head = around.starts_with.count("\n") + 1
    for index in range(head, len(lines)):
        kept = "\n".join(lines[:index])
        in_string = any(kept.count(quote) % 2 for quote in around.table.multiline_quotes)
        is_out = not is_blank(lines[index]) and is_deeper(around.indent, indentation(lines[index], 0))
        if is_out and not in_string and pair_end(fill, len(kept), around.table) == len(kept):
            return kept
    return fill


def close_on_new_line(around: Around, fill: str) -> str:
    """`fill`, plus a line end if it began on a new line and its block's closer follows on the old one."""
    follows = re.match(rf"\s*(?:{'|'.join(map(re.escape, around.table.closers)) or '(?!)'})(?!\w)", around.after)
    began = around.span.kind == HoleKind.BODY and "\n" in around.starts_with
    return f"{fill}\n{indentation(around.before, 0)}" if began and follows else fill


def trim_end(around: Around, fill: str) -> str:
    """`fill` without trailing blank lines, and without trailing white space unless it separates the fill from code."""
    fill = fill.rstrip("\n") if around.span.single_line else fill.rstrip()
    follows = around.after[:1]
    return fill if follows and not follows.isspace() and follows not in ")]},;:" else fill.rstrip()

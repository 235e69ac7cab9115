"""Make one fill ready to be put in: a few steps, each of which only cuts or restyles it."""

from collections import Counter

from lsp_server.carve import Span
from lsp_server.fill.fitting.around import Around, look_around, plain_line_ends
from lsp_server.fill.fitting.balance import cut_at_foreign_closer
from lsp_server.fill.fitting.breakage import least_broken
from lsp_server.fill.fitting.drop import Drop
from lsp_server.fill.fitting.overlap import (
    cut_comment_before_code,
    cut_repeated_line_end,
    cut_repeated_lines,
    drop_repeated_line_start,
    repeats_line_above,
)
from lsp_server.fill.fitting.patience import Patience
from lsp_server.fill.fitting.whitespace import close_on_new_line, indent_like, stay_in_block, trim_end, trim_start
from lsp_server.syntax.lines import eol_at, is_blank
from lsp_server.syntax.source import Source
from lsp_server.syntax.strings_and_comments import StringOrComment
from lsp_server.syntax.view import View

_BROKEN = "\ufffd"
"""What a decoder writes for bytes that are not a character."""


def fit(source: Source, span: Span, fill: str) -> str | None:
    """The same as `Fitter.fit`, for one fill."""
    return Fitter(source).fit(span, fill)


class Fitter:
    """Makes fills of the holes of one source fit, one hole after the other. Each thread needs its own.

    `drops` counts the reasons why there was nothing worth showing.
    """

    def __init__(self, source: Source, patience: Patience | None = None) -> None:
        self._source = source
        self._patience = patience or Patience()
        self._view = View.of(source)
        self.drops = Counter[Drop]()
        self._known: tuple[Span, Around] | None = None

    def fit(self, span: Span, fill: str) -> str | None:
        """The text to put in place of `span`, beginning with `span.starts_with`; None: nothing worth showing.

        Cuts what repeats the text around the hole, and closing brackets that follow it anyway. Indentation and line
        ends become those of the text. A fill of a single-line span ends at its first line end.
        """
        found = self._fitted(self._look_around(span), fill)
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
        if _is_empty(around, fill := self._before_line_end(around, fill)):
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
        """The surroundings of a hole, which candidates of it share."""
        if self._known is None or self._known[0] != span:
            self._known = span, look_around(self._source, span, self._view)
        return self._known[1]

    def _inside(self, around: Around, fill: str) -> str:
        """`fill` up to where it would end something that began before it: a block, brackets, a string."""
        if around.literal:
            return self._fit_literal(around, around.literal, fill)
        fill = cut_comment_before_code(around, drop_repeated_line_start(around, fill))
        fill = stay_in_block(around, indent_like(around, self._source.text, fill))
        return self._least_broken(around, cut_at_foreign_closer(fill, around.brackets, around.table), fill)

    def _fit_literal(self, around: Around, literal: StringOrComment, fill: str) -> str:
        """A fill inside a comment or string, up to where it would end that, unless it had no end of its own.

        A string that is being typed may seem to end where the next one begins: only the parse with the fill can tell.
        """
        closer = literal.closer
        at = fill.find(closer) if closer else -1
        while at > 0 and fill[at - 1] == "\\":
            at = fill.find(closer, at + 1)
        return fill if at < 0 or literal.unfinished else self._least_broken(around, fill[:at], fill)

    def _before_line_end(self, around: Around, fill: str) -> str:
        return trim_end(around, cut_repeated_line_end(around, fill, self._least_broken))

    def _least_broken(self, around: Around, *fills: str) -> str:
        return least_broken(self._source, around.span, *fills, patience=self._patience)


def _is_empty(around: Around, fill: str) -> bool:
    """Whether nothing is left of a fill but what it had to begin with."""
    return not fill.startswith(around.starts_with) or is_blank(fill[len(around.starts_with) :])

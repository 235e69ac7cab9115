"""Make one fill ready to be put in: a few steps, each of which only cuts or restyles it."""

from lsp_server.carve import Span
from lsp_server.fill.fitting.around import Around, look_around, plain_line_ends
from lsp_server.fill.fitting.balance import cut_at_foreign_closer
from lsp_server.fill.fitting.breakage import least_broken
from lsp_server.fill.fitting.overlap import (
    cut_comment_before_code,
    cut_repeated_line_end,
    cut_repeated_lines,
    drop_repeated_line_start,
    repeats_line_above,
)
from lsp_server.fill.fitting.whitespace import close_on_new_line, indent_like, stay_in_block, trim_end, trim_start
from lsp_server.syntax.lines import eol_at, is_blank
from lsp_server.syntax.source import Source

_BROKEN = "\ufffd"
"""What a decoder writes for bytes that are not a character."""


def fit(source: Source, span: Span, fill: str) -> str | None:
    """The text to put in place of `span`, beginning with `span.starts_with`; None: nothing worth showing.

    Cuts what repeats the text around the hole, and closing brackets that follow it anyway. Indentation and line ends
    become those of the text. A fill of a single-line span ends at its first line end.
    """
    around = look_around(source, span)
    fill = plain_line_ends(fill)
    if _BROKEN in fill or not fill.startswith(around.starts_with):
        return None
    fill = trim_start(around, fill)
    if span.single_line:
        fill = fill.partition("\n")[0]
    fill = _fit_literal(around, source, fill) if around.literal else _fit_code(around, source, fill)
    fill = trim_end(around, cut_repeated_line_end(around, source, fill))
    if not fill.startswith(around.starts_with) or _changes_nothing(around, source, fill):
        return None
    return close_on_new_line(around, fill).replace("\n", eol_at(source.text, span.start))


def _fit_code(around: Around, source: Source, fill: str) -> str:
    fill = cut_comment_before_code(around, drop_repeated_line_start(around, fill))
    fill = stay_in_block(around, indent_like(around, source.text, fill))
    cut = cut_at_foreign_closer(fill, around.brackets, around.table)
    return cut_repeated_lines(around, least_broken(source, around.span, cut, fill))


def _fit_literal(around: Around, source: Source, fill: str) -> str:
    """A fill inside a comment or string, up to where it would end that, unless it had no end of its own.

    A string that is being typed may seem to end where the next one begins: only the parse with the fill can tell.
    """
    closer = around.literal.closer if around.literal else ""
    at = fill.find(closer) if closer else -1
    while at > 0 and fill[at - 1] == "\\":
        at = fill.find(closer, at + 1)
    if at < 0 or (around.literal and around.literal.unfinished):
        return fill
    return least_broken(source, around.span, fill[:at], fill)


def _changes_nothing(around: Around, source: Source, fill: str) -> bool:
    span = around.span
    is_old = fill == plain_line_ends(source.text[span.start : span.end])
    return is_old or is_blank(fill[len(around.starts_with) :]) or repeats_line_above(around, fill)

"""The text around a hole, read once for all fitting steps. Line ends are always `\n` here."""

from dataclasses import dataclass

from lsp_server.carve import Span
from lsp_server.carve.brackets import OpenBracket, open_brackets
from lsp_server.fill.fitting.breakage import open_in_text
from lsp_server.syntax.languages import LanguageTable, table_of
from lsp_server.syntax.lines import indentation, is_blank, line_end, line_start, plain_line_ends, previous_line
from lsp_server.syntax.source import Source
from lsp_server.syntax.strings_and_comments import StringOrComment, string_or_comment_at
from lsp_server.syntax.view import View

_AFTER_CHARACTERS = 4000
_LINE_CHARACTERS = 4000
"""Read at most this much of the hole's line on either side: a file may be a single line."""


@dataclass(frozen=True)
class Around:
    """The text around a hole: `before` and `after` are the rest of its line, `below` the next non-blank lines."""

    span: Span
    table: LanguageTable
    starts_with: str
    above: str
    before: str
    after: str
    below: tuple[str, ...]
    brackets: tuple[OpenBracket, ...]
    literal: StringOrComment | None

    @property
    def at_line_start(self) -> bool:
        """Whether only indentation precedes the fill on its first line."""
        return is_blank(self.before) or "\n" in self.starts_with

    @property
    def indent(self) -> str:
        """The indentation of the line on which the fill itself begins."""
        typed = self.starts_with.rpartition("\n")[2]
        return indentation(typed if "\n" in self.starts_with else self.before + typed, 0)


def look_around(source: Source, span: Span, view: View | None) -> Around:
    """The surroundings of `span` in `source`, whose view is `view`."""
    text, table = source.text, table_of(source.language_id)
    end = line_end(text, span.end)
    below = plain_line_ends(text[end : end + _AFTER_CHARACTERS]).split("\n")[1:]
    return Around(
        span=span,
        table=table,
        starts_with=plain_line_ends(span.starts_with),
        above=previous_line(text, span.start) or "",
        before=text[max(line_start(text, span.start), span.start - _LINE_CHARACTERS) : span.start],
        after=text[span.end : min(end, span.end + _LINE_CHARACTERS)],
        below=tuple(filter(None, (line.rstrip() for line in below))),
        brackets=tuple(open_brackets(view, span.start) if view else open_in_text(text, span.start, span.end, table)),
        literal=string_or_comment_at(view, span.start) if view else None,
    )

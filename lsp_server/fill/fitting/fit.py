"""Makes one fill ready to insert in a few steps, each of which only cuts or restyles it."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile

from inference.messages import HoleKind
from lsp_server.carve import Span
from lsp_server.carve.brackets import OpenBracket, in_expression, open_brackets
from lsp_server.fill.fitting.breakage import Patience, cut_at_foreign_closer, least_broken, open_in_text
from lsp_server.fill.fitting.unseen import brings_unseen
from lsp_server.syntax.languages import CLOSERS, LanguageTable, table_of
from lsp_server.syntax.lines import (
    eol_at,
    indent_step,
    indentation,
    is_blank,
    is_deeper,
    is_word,
    line_end,
    line_start,
    plain_line_ends,
    previous_line,
)
from lsp_server.syntax.scanning import comment_at_end, pair_end
from lsp_server.syntax.source import Source
from lsp_server.syntax.strings_and_comments import StringOrComment, string_or_comment_at
from lsp_server.syntax.view import View

_MIN_LINES = 2
"""This many lines equal to the lines below count as repetition even if the fill has more lines after them."""
_AFTER_CHARACTERS = 4000
_LINE_CHARACTERS = 4000
"""Read at most this much of the hole's line on either side: a file may be a single line."""
_BROKEN = "\ufffd"
"""A decoder writes this for bytes that form no character."""
_LEADING_BLANK_LINES = re.compile(r"(?:[ \t]*\n)+[ \t]*")


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


_LeastBroken = Callable[..., str]
"""Of an `Around` and some fills, the fill that leaves the fewest errors."""


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


def cut_repeated_line_end(around: Around, fill: str, least_broken: _LeastBroken) -> str:
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

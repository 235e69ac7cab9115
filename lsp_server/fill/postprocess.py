"""Makes the worker's candidates ready to insert, in a few steps that only cut or restyle, and orders them.

Text in, text out; knows no LSP, worker or model. A hole for which a candidate has nothing keeps its text.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from itertools import takewhile
from typing import Self

from msgspec.structs import replace
from tree_sitter import Node, Tree

from inference.ending import CONTROL_TOKEN, Ending, lexical_brackets
from inference.messages import Candidate, Hole, HoleKind
from lsp_server.documents.document import Snapshot
from lsp_server.holes import Span
from lsp_server.holes.blocks import OpenBracket, expression_brackets, open_brackets
from lsp_server.holes.segments import splice
from lsp_server.syntax.languages import CLOSERS, LanguageTable, table_of
from lsp_server.syntax.lines import (
    eol_at,
    indent_step,
    indentation,
    is_blank,
    is_one_line,
    is_unseen,
    is_word,
    line_end,
    line_start,
    plain_line_ends,
    previous_line,
)
from lsp_server.syntax.parsing import Limit, Source, edit_tree, parse
from lsp_server.syntax.scanning import brackets_of, comment_at_end
from lsp_server.syntax.view import StringOrComment, View, goto_next, string_or_comment_at

MAX_PARSE_S = 0.25
"""Processor time for one parse; in a sound file of 5,000 lines it takes a few milliseconds."""
_MENDING_S = 0.02
"""The same for all parses that look for a sign at a fill's end: in code that is broken elsewhere they find none."""
_WINDOW_CHARACTERS = 4000


class Patience:
    """Two deadlines, in `left_s` and, for parsing, in half of that. `stop` ends both."""

    def __init__(self, left_s: float = float("inf")) -> None:
        self._parse_until_s = time.monotonic() + left_s / 2
        self._until_s = time.monotonic() + left_s
        self._stopped = False
        self._parse = Limit(MAX_PARSE_S)

    @property
    def is_over(self) -> bool:
        return self._stopped or time.monotonic() >= self._until_s

    def stop(self) -> None:
        self._stopped = True
        self._parse.stop()

    def for_parse(self, most_s: float = MAX_PARSE_S) -> Limit | None:
        """The limit of the next parse, in seconds of processor time; None: do not parse."""
        if self._stopped or time.monotonic() >= self._parse_until_s:
            return None
        self._parse = Limit(most_s)
        return self._parse


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
    breaks = [(errors_with(source, spans, fills, patience) or 0) > allowed for fills in candidates]
    return sorted(range(len(candidates)), key=breaks.__getitem__)


def breaks_parse(source: Source, spans: Sequence[Span], fills: Sequence[str], patience: Patience | None = None) -> bool:
    """Whether `fills` add errors to the tree; False if unknown. Raises as `splice`."""
    return (errors_with(source, spans, fills, patience) or 0) > _allowed_errors(source, spans, patience)


def errors_with(
    source: Source,
    spans: Sequence[Span],
    fills: Sequence[str],
    patience: Patience | None = None,
    *,
    limit: Limit | None = None,
) -> int | None:
    """The number of errors in the tree with `fills` in place of `spans`; None if unknown. Raises as `splice` does."""
    text = splice(source.text, spans, fills)
    limit = limit or (patience or Patience()).for_parse()
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
    errors = [errors_with(source, [span], [fill], patience) for fill in fills]
    known = [each for each in errors if each is not None]
    return fills[known.index(min(known))] if len(known) == len(fills) else fills[0]


def errors_of(tree: Tree | Node) -> int:
    """The number of error or missing nodes in a tree, or below a node. Visits only branches that contain one."""
    found, cursor = 0, tree.walk()
    while found < _MAX_COUNTED:
        node = cursor.node
        found += node is not None and (node.is_error or node.is_missing)
        if node is not None and node.has_error and cursor.goto_first_child():
            continue
        if not goto_next(cursor):
            break
    return found


def _allowed_errors(source: Source, spans: Sequence[Span], patience: Patience | None) -> int:
    table = table_of(source.language_id)
    least = errors_of(source.tree) if source.tree else 0
    for name in dict.fromkeys((table.name, table.name + table.statement_end)):
        errors = errors_with(source, spans, [span.starts_with + name for span in spans], patience)
        least = least if errors is None else min(least, errors)
    return least


_SUSPECT = re.compile(r"[^\t\n\r -~]")
_LOOK = "(?:\ufe0f?[\U0001f3fb-\U0001f3ff]?)"
_EMOJI = re.compile(
    "[#*0-9]\ufe0f\u20e3|"
    f"[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u27ff\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]{_LOOK}"
    f"(?:\u200d[\u2190-\u27ff\u2900-\u2bff\U0001f000-\U0001faff]{_LOOK}){{0,3}}"
)
"""One emoji: the joiners and selectors in it are part of the visible glyph. None joins more than four."""
_BYTE_ORDER_MARK = "\ufeff"


def brings_unseen(fill: str, text: str, typed: str = "") -> bool:
    """Whether `fill` has an invisible character that neither `text` (but for a byte order mark) nor `typed` has."""
    return any(each not in typed and each not in text.removeprefix(_BYTE_ORDER_MARK) for each in unseen_in(fill))


def visible(text: str) -> str:
    """`text` made safe for a terminal: U+FFFD replaces invisible characters."""
    unseen = unseen_in(text)
    return text.translate(dict.fromkeys(map(ord, unseen), "\ufffd")) if unseen else text


def unseen_in(text: str) -> set[str]:
    """The invisible characters in `text`, except those inside an emoji."""
    if not _SUSPECT.search(text):
        return set()
    return {each for each in _SUSPECT.findall(_EMOJI.sub("", text)) if is_unseen(each)}


_AROUND_CHARACTERS = 4000
"""Read at most this much of the text on either side: a file may be a single line."""
_BROKEN = "\ufffd"
_JSON_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"?|(//|/\*)')
"""A decoder writes this for bytes that form no character."""
_TRIPLE_QUOTES = ('"""', "'''")
_LEADING_BLANK_LINES = re.compile(r"(?:[ \t]*\n)+[ \t]*")


@dataclass(frozen=True)
class Syntax:
    """What only a tree tells about a hole. `closable` and `quotes` are as in `Hole`."""

    brackets: tuple[OpenBracket, ...] = ()
    literal: StringOrComment | None = None
    closable: str | None = None
    quotes: str | None = None

    @classmethod
    def at(cls, view: View | None, offset: int) -> Self:
        """That of a hole at `offset`; nothing without a tree."""
        if view is None:
            return cls()
        if _is_unparsed(view, offset):
            return cls(quotes="")
        literal = string_or_comment_at(view, offset)
        brackets = tuple(open_brackets(view, offset))
        lacking = takewhile(lambda bracket: not bracket.closed, reversed(brackets))
        closable = "".join(CLOSERS[bracket.kind] for bracket in lacking)
        if literal and not literal.closer:  # prose up to the end of the line
            return cls(brackets, literal)
        return cls(brackets, literal, closable, literal.closer if literal else "")

    def told(self, hole: Hole) -> Hole:
        """The hole with this, for the decoder."""
        return replace(hole, closable=self.closable, quotes=self.quotes)


@dataclass(frozen=True)
class HoleSurroundings:
    """The text around a hole: `before` and `after` are the rest of its line. `brackets` are open there, by the tree."""

    span: Span
    table: LanguageTable
    starts_with: str
    above: str
    before: str
    after: str
    is_last: bool
    ending: Ending
    is_in_expression: bool
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

    def stays_in_literal(self, fill: str) -> bool:
        """Whether all of the fill is in a string or comment around the hole."""
        return self.literal is not None and not (self.literal.closer and self.literal.closer in fill)


def look_around(source: Source, span: Span, view: View | None) -> HoleSurroundings:
    text, table = source.text, table_of(source.language_id)
    end = line_end(text, span.end)
    starts_with = plain_line_ends(span.starts_with)
    above = text[max(span.start - _AROUND_CHARACTERS, 0) : span.start]
    below = text[span.end : span.end + _AROUND_CHARACTERS]
    syntax = Syntax.at(view, span.start)
    ending = Ending(
        above,
        below,
        starts_with,
        current=text[span.start : span.end],
        closable=syntax.closable,
        quotes=syntax.quotes,
        has_fences=table.ids[:1] == ("markdown",),
        brackets=partial(brackets_of, table=table) if table.grammar else lexical_brackets,
    )
    return HoleSurroundings(
        span=span,
        table=table,
        starts_with=starts_with,
        above=previous_line(text, span.start) or "",
        before=above[line_start(above, len(above)) :],
        after=below[: end - span.end],
        is_last=is_blank(text[end : end + _AROUND_CHARACTERS]),
        ending=ending,
        is_in_expression=ending.is_in_brackets if view is None else bool(expression_brackets(syntax.brackets)),
        brackets=syntax.brackets,
        literal=syntax.literal,
    )


def _is_unparsed(view: View, offset: int) -> bool:
    """Whether the grammar reads the code here as one token, as a macro's in C."""
    leaf = view.leaf_at(offset - 1)
    if leaf is None or leaf.child_count or string_or_comment_at(view, offset):
        return False
    code = view.code(leaf)
    return len(code) > 1 and any(brackets_of(code, view.table))


_LINE_ENDS = frozenset(":;,{")
"""What a fill may repeat of the end of its line, though not of what follows at once."""
_LeastBroken = Callable[..., str]
"""Of `HoleSurroundings` and some fills, the fill that leaves the fewest errors."""


def drop_repeated_line_start(around: HoleSurroundings, fill: str) -> str:
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


def repeats_line_above(around: HoleSurroundings, fill: str) -> bool:
    first = fill.removeprefix(around.starts_with).partition("\n")[0] if around.at_line_start else ""
    return _has_letter(first) and not around.is_in_expression and first.strip() == around.above.strip()


def cut_repeated_line_end(around: HoleSurroundings, fill: str, least_broken: _LeastBroken) -> str:
    """`fill` without an ending that repeats what follows. Where that depends on a quote, or on what the fill has behind
    it, the parse decides.
    """
    if around.literal:  # prose has no pairs, but the full stop or quote may be intended
        cuts = around.ending.line_cuts(fill.rstrip())
        return next((cut for cut in cuts if _has_letter(fill[len(cut) :])), fill)
    kept = around.ending.without_line_suffix(fill)
    if kept != fill:
        splits_quotes = any(fill.rstrip()[len(kept) :].count(quote) % 2 for quote in around.table.quotes)
        return least_broken(around, kept, fill) if splits_quotes else kept
    others = [before] if (before := around.ending.before_line_suffix(fill)) else []
    last = around.after.rstrip()[-1:]
    if not others and last in _LINE_ENDS and fill.rstrip().endswith(last):  # as `y:` in front of `.copy():`
        others = [fill.rstrip()[:-1]]
    return least_broken(around, fill, *others)


def cut_comment_before_code(around: HoleSurroundings, fill: str) -> str:
    """`fill` without a comment that would swallow the rest of the line."""
    at = -1 if is_blank(around.after) else comment_at_end(fill.rstrip(), around.table)
    return fill if at < 0 else fill[:at].rstrip()


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))


class DropReason(StrEnum):
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
    NEW_HOLE = "leaves a hole"


def in_words(drops: Mapping[DropReason, int]) -> str:
    """All reasons with their counts, most frequent first."""
    ordered = sorted(drops.items(), key=lambda item: -item[1])
    return ", ".join(f"{reason.value} ({count}\u00d7)" for reason, count in ordered)


class FillPostprocessor:
    """Fits fills to the holes of one source, in one thread. `drops` counts the reasons for showing nothing, such as
    another `marker`.
    """

    def __init__(
        self, source: Source, patience: Patience | None = None, marker: str = "", *, mends: bool = True
    ) -> None:
        """`mends`: whether to parse what a fill's end may need; not for many holes."""
        self._source = source
        self._patience = patience or Patience()
        self._marker = marker
        self._mends = mends
        self._named = _with_names(source, marker, self._patience)
        self._view = View.from_source(self._named)
        self.drops = Counter[DropReason]()
        self._known: tuple[Span, HoleSurroundings] | None = None

    def fit(self, span: Span, fill: str) -> str | None:
        """The text to insert for `span`, starting with `span.starts_with`; None if nothing is worth showing.

        Cuts what repeats the hole's surroundings, and adopts their indentation and line ends.
        """
        found = self._fitted(self._look_around(span), fill)
        if not isinstance(found, DropReason) and brings_unseen(found, self._source.text, span.starts_with):
            found = DropReason.UNSEEN
        if isinstance(found, DropReason):
            self.drops[found] += 1
            return None
        return found

    def _fitted(self, around: HoleSurroundings, fill: str) -> str | DropReason:
        fill = plain_line_ends(fill)
        if _BROKEN in fill or not fill.startswith(around.starts_with):
            return DropReason.UNREADABLE if _BROKEN in fill else DropReason.NOT_AS_BEGUN
        fill = trim_start(around, self._without_foreign_signs(fill))
        if around.span.single_line:
            fill = fill.partition("\n")[0]
        if _is_empty(around, fill):
            return DropReason.EMPTY
        fill = indent_like(around, self._source.text, fill)
        if not around.literal and _is_empty(around, fill := around.ending.cut_at_block_end(fill)):
            return DropReason.REPEATS_BELOW
        if _is_empty(around, fill := self._inside(around, fill)):
            return DropReason.CLOSES
        if _is_empty(around, fill := trim_end(around, cut_repeated_line_end(around, fill, self._least_broken))):
            return DropReason.REPEATS_BEHIND
        return self._ready(around, self._ended(around, fill) if self._mends else fill)

    def _ready(self, around: HoleSurroundings, fill: str) -> str | DropReason:
        text, span = self._source.text, around.span
        if fill == plain_line_ends(text[span.start : span.end]):
            return DropReason.UNCHANGED
        if repeats_line_above(around, fill):
            return DropReason.REPEATS_ABOVE
        if self._marker and fill.count(self._marker) > text.count(self._marker, span.start, span.end):
            return DropReason.NEW_HOLE
        return close_on_new_line(around, fill).replace("\n", eol_at(text, span.start))

    def _look_around(self, span: Span) -> HoleSurroundings:
        if self._known is None or self._known[0] != span:
            self._known = span, look_around(self._source, span, self._view)
        return self._known[1]

    def _without_foreign_signs(self, fill: str) -> str:
        """`fill` up to the line with a token of some model's prompts, and without comments in JSON, where the file has
        none of these.
        """
        tokens = (match for match in CONTROL_TOKEN.finditer(fill) if match[0] not in self._source.text)
        if token := next(tokens, None):
            fill = fill[: fill.rfind("\n", 0, token.start()) + 1].rstrip()
        comment = next((match for match in _JSON_COMMENT.finditer(fill) if match[1]), None)
        return fill[: comment.start()].rstrip() if comment and self._is_plain_json else fill

    @cached_property
    def _is_plain_json(self) -> bool:
        text = self._source.text
        return self._source.language_id == "json" and not any(match[1] for match in _JSON_COMMENT.finditer(text))

    def _inside(self, around: HoleSurroundings, fill: str) -> str:
        """`fill` up to the point where it would end something opened before it: brackets or a string."""
        if around.literal:
            return self._fit_literal(around, around.literal, fill)
        fill = cut_comment_before_code(around, drop_repeated_line_start(around, fill))
        return self._least_broken(around, around.ending.cut_at_closer(fill), fill)

    def _ended(self, around: HoleSurroundings, fill: str) -> str:
        """`fill` with the sign at its end that makes it fit to the lines below, or without one that does not, where
        only that makes the parse sound: a comma between items, a bracket or a colon before a block, no semicolon inside
        an expression. The errors of unfinished code tell nothing.
        """
        if around.stays_in_literal(fill) or not is_blank(around.after) or around.is_last:
            return fill
        limit = self._patience.for_parse(_MENDING_S)

        def errors(fill: str) -> int | None:
            return errors_with(self._named, [around.span], [fill], self._patience, limit=limit)

        if not errors(fill):
            return fill
        table = around.table
        block = ":" if table.by_indentation else " {" if "{" in table.openers else ""
        signs = (block,) if _begins_header(around, fill) else (table.statement_end, ",", block)
        others = [fill + sign for sign in signs if sign and fill[-1] not in CLOSERS]
        if fill[-1] in ",;":
            others = [fill[:-1]]
        return next((other for other in others if errors(other) == 0), fill)

    def _fit_literal(self, around: HoleSurroundings, literal: StringOrComment, fill: str) -> str:
        """A fill inside a comment or string, cut before its end; a parse tells whether a string ends there."""
        closer = literal.closer
        at = fill.find(closer) if closer else -1
        while at > 0 and fill[at - 1] == "\\":
            at = fill.find(closer, at + 1)
        return fill if at < 0 or literal.unfinished else self._least_broken(around, fill[:at], fill)

    def _least_broken(self, around: HoleSurroundings, *fills: str) -> str:
        return least_broken(self._named, around.span, *fills, patience=self._patience)


def _with_names(source: Source, marker: str, patience: Patience) -> Source:
    """`source` with a name of the same length in place of each marker, where markers break the parse."""
    is_broken = marker in source.text and source.tree is not None and source.tree.root_node.has_error
    limit = patience.for_parse() if marker and is_one_line(marker) and is_broken else None
    if limit is None:
        return source
    name = table_of(source.language_id).name
    text = source.text.replace(marker, (name * len(marker))[: len(marker)])
    tree = parse(source.language_id, text, limit=limit)
    return source if tree is None else Source(text, source.language_id, tree, source.uri)


def _is_empty(around: HoleSurroundings, fill: str) -> bool:
    """Whether a fill has shrunk to what it had to begin with."""
    return not fill.startswith(around.starts_with) or is_blank(fill[len(around.starts_with) :])


def trim_start(around: HoleSurroundings, fill: str) -> str:
    """`fill` without leading blank lines, and without leading white space or quotes that the text before it already
    has.
    """
    head = around.starts_with
    if not head:
        fill = _without_repeated_quotes(around.before, fill)
    rest = fill[len(around.starts_with) :]
    if around.literal or (head and not is_blank(head)):
        return fill
    if around.at_line_start and not around.span.single_line:
        rest = _LEADING_BLANK_LINES.sub("", rest, count=1) if _LEADING_BLANK_LINES.match(rest) else rest
    if (around.before + head)[-1:] in (" ", "\t"):
        rest = rest.lstrip(" \t")
    return head + rest


def _without_repeated_quotes(before: str, fill: str) -> str:
    """`fill` after a triple quote without another opening one, or a part of one: models write these where they would
    rather begin a new line.
    """
    quotes = next((quotes for quotes in _TRIPLE_QUOTES if before.endswith(quotes)), "")
    if fill.startswith(quotes):
        rest = fill.removeprefix(quotes)
        return rest if quotes and rest[:1].isalnum() else fill
    return fill.lstrip(quotes[0])


def indent_like(around: HoleSurroundings, text: str, fill: str) -> str:
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


def _begins_header(around: HoleSurroundings, fill: str) -> bool:
    """Whether the fill's last line begins as one before a block does, such as `if`."""
    words = around.table.header_words.replace(" ", "|")
    line = (around.before + fill).rpartition("\n")[2]
    return bool(words) and re.match(rf"\s*(?:\}}\s*)?(?:{words})\b", line) is not None


def close_on_new_line(around: HoleSurroundings, fill: str) -> str:
    """`fill`, plus a line end if it began on a new line and its block's closer follows on the old one."""
    follows = re.match(rf"\s*(?:{'|'.join(map(re.escape, around.table.closers)) or '(?!)'})(?!\w)", around.after)
    began = around.span.kind == HoleKind.BODY and "\n" in around.starts_with
    return f"{fill}\n{indentation(around.before, 0)}" if began and follows else fill


def trim_end(around: HoleSurroundings, fill: str) -> str:
    """`fill` without trailing blank lines, and without trailing white space unless it separates the fill from code or
    from the end of brackets that begin with a space, as `{ a }` does.
    """
    fill = fill.rstrip("\n") if around.span.single_line else fill.rstrip()
    follows = around.after[:1]
    if follows and not follows.isspace() and follows not in ")]},;:":
        return fill
    fill = fill.rstrip()
    return f"{fill} " if not _is_empty(around, fill) and _is_spaced(around, fill) else fill


def _is_spaced(around: HoleSurroundings, fill: str) -> bool:
    """Whether the brackets of code that end right behind the hole begin with a space, on its line."""
    is_code = bool(around.table.strings) and not around.stays_in_literal(fill)
    bracket = around.brackets[-1] if around.brackets and is_code else None
    if bracket is None or CLOSERS.get(bracket.kind) != around.after[:1] or "\n" in fill:
        return False
    at = len(around.before) - (around.span.start - bracket.start)
    return at >= 0 and (around.before[at + 1 :] + fill).startswith(" ")


FEW_HOLES = 8
"""Fitting this many takes a few milliseconds at most if nothing is parsed; the ends of more are not mended."""


def current_texts(snapshot: Snapshot, spans: Sequence[Span]) -> tuple[str, ...]:
    return tuple(snapshot.text[span.start : span.end] for span in spans)


def fitted(
    snapshot: Snapshot,
    spans: Sequence[Span],
    candidates: Sequence[Candidate],
    patience: Patience | None = None,
    marker: str = "",
) -> tuple[list[Candidate], Counter[DropReason]]:
    """The distinct candidates that change something, best first, and the drops by reason.

    First those that fill every hole, last those that break the parse. When `patience` runs out, holes keep their text.
    """
    current = current_texts(snapshot, spans)
    patience = patience or Patience()
    fitter = FillPostprocessor(snapshot, patience, marker, mends=len(spans) <= FEW_HOLES)
    rows: list[list[str]] = [[] for _ in candidates]
    for number, span in enumerate(spans):  # hole by hole, since neighbours share most of the tree
        is_left = number >= FEW_HOLES and patience.is_over
        for candidate, row in zip(candidates, rows, strict=True):
            text = None if is_left or number in candidate.unfilled else fitter.fit(span, candidate.texts[number])
            row.append(current[number] if text is None else text)
    fits: dict[tuple[str, ...], Candidate] = {}
    for candidate, texts in zip(candidates, map(tuple, rows), strict=True):
        if texts != current:
            fits.setdefault(texts, replace(candidate, texts=texts))
    ordered = [list(fits.values())[index] for index in order(snapshot, spans, list(fits), patience)]
    return sorted(ordered, key=lambda candidate: count_unfilled(candidate.texts, current)), fitter.drops


def count_unfilled(texts: Sequence[str], current: Sequence[str]) -> int:
    return sum(text == before for text, before in zip(texts, current, strict=True))

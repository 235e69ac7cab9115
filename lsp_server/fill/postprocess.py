"""Makes the worker's candidates ready to insert, in a few steps that only cut or restyle, and orders them.

Text in, text out; knows no LSP, worker or model. A hole for which a candidate has nothing keeps its text.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from itertools import takewhile
from typing import Self

from msgspec.structs import replace
from tree_sitter import Node, Tree

from inference.deadline import Deadline
from inference.ending import (
    CLOSING,
    CONTROL_TOKEN,
    TAB_WIDTH,
    FillEnding,
    first_unlikely_offset,
    has_letter,
    indent_width,
    lexical_brackets,
    unpaired,
)
from inference.messages import FilledHoles, Hole, HoleKind
from lsp_server.documents.document import Snapshot
from lsp_server.documents.uris import file_name
from lsp_server.holes import HoleSpan
from lsp_server.holes.blocks import OpenBracket, open_brackets, open_brackets_in_block
from lsp_server.holes.segments import splice
from lsp_server.syntax.languages import CLOSERS, LanguageTable, table_of
from lsp_server.syntax.lines import (
    eol_at,
    indent_step,
    indentation,
    is_blank,
    is_invisible,
    is_one_line,
    is_word_char,
    line_end,
    line_start,
    nonblank_line_above,
    normalise_line_ends,
)
from lsp_server.syntax.parsing import CpuLimit, Source, edit_tree, parse
from lsp_server.syntax.scanning import find_brackets, trailing_comment_start
from lsp_server.syntax.view import StringOrComment, SyntaxView, skip_subtree, string_or_comment_at

MAX_PARSE_S = 0.25
"""Processor time for one parse; in a sound file of 5,000 lines it takes a few milliseconds."""
_REPAIR_PARSE_S = 0.02
"""Processor time for all parses that try to repair a fill's end: in code that is broken elsewhere none succeeds."""


class FitDeadline:
    """A deadline that `stop` ends early. Parsing may take half of the time until it."""

    def __init__(self, timeout_ms: float = float("inf")) -> None:
        self._deadline = Deadline(timeout_ms)
        self._stopped = False
        self._parse = CpuLimit(MAX_PARSE_S)

    @property
    def is_past(self) -> bool:
        return self._stopped or self._deadline.is_past

    def stop(self) -> None:
        self._stopped = True
        self._parse.stop()

    def parse_limit(self, max_s: float = MAX_PARSE_S) -> CpuLimit | None:
        """The limit of processor time for the next parse; None if there is no time to parse."""
        if self._stopped or self._deadline.elapsed_ms >= self._deadline.timeout_ms / 2:
            return None
        self._parse = CpuLimit(max_s)
        return self._parse


_MAX_COUNTED = 100
"""Stop counting errors here: in a text this broken the count says nothing about a fill."""


def rank_by_errors(
    source: Source,
    spans: Sequence[HoleSpan],
    candidates: Sequence[tuple[str, ...]],
    deadline: FitDeadline | None = None,
) -> list[int]:
    """The indices of `candidates`, with those that add errors to the tree moved last, compared with a plain name in the
    holes. Without a tree the order stays. Raises ValueError as `splice`, if there is a choice.
    """
    if source.tree is None or len(candidates) < 2:  # parsing takes time, and one candidate leaves no choice
        return list(range(len(candidates)))
    allowed = _allowed_errors(source, spans, deadline)
    breaks = [(count_errors_with(source, spans, fills, deadline) or 0) > allowed for fills in candidates]
    return sorted(range(len(candidates)), key=breaks.__getitem__)


def breaks_parse(source: Source, spans: Sequence[HoleSpan], fills: Sequence[str]) -> bool:
    """Whether `fills` add errors to the tree; False if unknown. Raises as `splice`."""
    return (count_errors_with(source, spans, fills) or 0) > _allowed_errors(source, spans)


def count_errors_with(
    source: Source,
    spans: Sequence[HoleSpan],
    fills: Sequence[str],
    deadline: FitDeadline | None = None,
    *,
    limit: CpuLimit | None = None,
) -> int | None:
    """The number of errors in the tree with `fills` in place of `spans`; None if unknown. Raises as `splice` does."""
    text = splice(source.text, spans, fills)
    limit = limit or (deadline or FitDeadline()).parse_limit()
    if source.tree is None or limit is None:
        return None
    edited = source.tree.copy()
    for span, fill in reversed(list(zip(spans, fills, strict=True))):  # backwards, so that earlier offsets stay valid
        edit_tree(edited, source.text, span.start, span.end, fill)
    filled = parse(source.language_id, text, edited, limit=limit)
    return None if filled is None else count_errors(filled)


def fill_with_fewest_errors(source: Source, span: HoleSpan, *fills: str, deadline: FitDeadline | None = None) -> str:
    """The fill that leaves the fewest errors; the first one on a tie or if unknown."""
    if len(set(fills)) == 1:
        return fills[0]
    errors = [count_errors_with(source, [span], [fill], deadline) for fill in fills]
    counts = [count for count in errors if count is not None]
    return fills[counts.index(min(counts))] if len(counts) == len(fills) else fills[0]


def count_errors(tree: Tree | Node) -> int:
    """The number of error or missing nodes in a tree, or below a node. Visits only branches that contain one."""
    count, cursor = 0, tree.walk()
    while count < _MAX_COUNTED:
        node = cursor.node
        count += node is not None and (node.is_error or node.is_missing)
        if node is not None and node.has_error and cursor.goto_first_child():
            continue
        if not skip_subtree(cursor):
            break
    return count


def _allowed_errors(source: Source, spans: Sequence[HoleSpan], deadline: FitDeadline | None = None) -> int:
    table = table_of(source.language_id)
    allowed = count_errors(source.tree) if source.tree else 0
    tails = [source.text[span.start + len(span.starts_with) : span.end] for span in spans]
    closers = ["" if tail.strip(CLOSING) else tail for tail in tails]
    named = [span.starts_with + table.shortest_expression + tail for span, tail in zip(spans, closers, strict=True)]
    for end in dict.fromkeys(("", table.statement_end)):
        errors = count_errors_with(source, spans, [name + end for name in named], deadline)
        allowed = allowed if errors is None else min(allowed, errors)
    return allowed


_SUSPECT = re.compile(r"[^\t\n\r -~]")
_VARIATION = "(?:\ufe0f?[\U0001f3fb-\U0001f3ff]?)"
_EMOJI = re.compile(
    "[#*0-9]\ufe0f\u20e3|"
    f"[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u27ff\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]{_VARIATION}"
    f"(?:\u200d[\u2190-\u27ff\u2900-\u2bff\U0001f000-\U0001faff]{_VARIATION}){{0,3}}"
)
"""One emoji: the joiners and selectors in it are part of the visible glyph. None joins more than four."""
_BYTE_ORDER_MARK = "\ufeff"


def adds_invisible(fill: str, text: str, typed: str = "") -> bool:
    """Whether `fill` has an invisible character that neither `text` (but for a byte order mark) nor `typed` has."""
    text = text.removeprefix(_BYTE_ORDER_MARK)
    return any(character not in typed and character not in text for character in invisible_characters(fill))


def replace_invisible(text: str) -> str:
    """`text` made safe for a terminal: U+FFFD replaces invisible characters."""
    invisible = invisible_characters(text)
    return text.translate(dict.fromkeys(map(ord, invisible), "\ufffd")) if invisible else text


def invisible_characters(text: str) -> set[str]:
    """The invisible characters in `text`, except those inside an emoji."""
    if not _SUSPECT.search(text):
        return set()
    return {character for character in _SUSPECT.findall(_EMOJI.sub("", text)) if is_invisible(character)}


_MAX_SIDE_CHARACTERS = 4000
"""The most text read on either side of a hole: a file may be a single line."""
_BROKEN = "\ufffd"
"""What the decoder writes for bytes that form no character."""
_JSON_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"?|(//|/\*)')
_TRIPLE_QUOTES = ('"""', "'''")
_LEADING_BLANK_LINES = re.compile(r"(?:[ \t]*\n)+[ \t]*")


@dataclass(frozen=True)
class EnclosingSyntax:
    """What only the syntax tree can tell about a hole. `closable` and `quotes` are as in `Hole`."""

    brackets: tuple[OpenBracket, ...] = ()
    literal: StringOrComment | None = None
    closable: str | None = None
    quotes: str | None = None

    @classmethod
    def at_offset(cls, view: SyntaxView | None, offset: int) -> Self:
        """The syntax of a hole at `offset`; empty without a tree."""
        if view is None:
            return cls()
        if _is_unparsed(view, offset):
            return cls(quotes="")
        literal = string_or_comment_at(view, offset)
        brackets = tuple(open_brackets(view, offset))
        lacking = takewhile(lambda bracket: not bracket.is_closed, reversed(brackets))
        closable = "".join(CLOSERS[bracket.kind] for bracket in lacking)
        if literal and not literal.closer:  # prose up to the end of the line
            return cls(brackets, literal)
        return cls(brackets, literal, closable, literal.closer if literal else "")

    def add_to(self, hole: Hole) -> Hole:
        """Returns the hole with the fields that the decoder needs."""
        return replace(hole, closable=self.closable, quotes=self.quotes)


@dataclass(frozen=True)
class HoleSurroundings:
    """The text around a hole, with the parts of its line on both sides. The tree says which `brackets` are open."""

    span: HoleSpan
    table: LanguageTable
    starts_with: str
    line_prefix: str
    line_suffix: str
    is_last: bool
    ending: FillEnding
    is_in_expression: bool
    brackets: tuple[OpenBracket, ...]
    literal: StringOrComment | None

    @property
    def fill_starts_line(self) -> bool:
        """Whether only indentation precedes the fill on its first line."""
        return is_blank(self.line_prefix) or "\n" in self.starts_with

    @property
    def indent(self) -> str:
        """The indentation of the line on which the fill itself begins."""
        typed = self.starts_with.rpartition("\n")[2]
        return indentation(typed if "\n" in self.starts_with else self.line_prefix + typed, 0)

    def is_begun_comment(self, fill: str) -> bool:
        """Whether the user has begun a comment but written no word of it: many wordings would do."""
        begun, comment = (self.line_prefix + self.starts_with).strip(), self.table.line_comment
        return bool(begun) and comment.startswith(begun) and (self.line_prefix + fill).lstrip().startswith(comment)

    def stays_in_literal(self, fill: str) -> bool:
        """Whether all of the fill is in a string or comment around the hole."""
        return self.literal is not None and not (self.literal.closer and self.literal.closer in fill)


def surroundings_of(source: Source, span: HoleSpan, view: SyntaxView | None) -> HoleSurroundings:
    text, table = source.text, table_of(source.language_id)
    end = line_end(text, span.end)
    starts_with = normalise_line_ends(span.starts_with)
    above = text[max(span.start - _MAX_SIDE_CHARACTERS, 0) : span.start]
    below = text[span.end : span.end + _MAX_SIDE_CHARACTERS]
    syntax = EnclosingSyntax.at_offset(view, span.start)
    has_fences = table.ids[:1] == ("markdown",)
    ending = FillEnding(
        above,
        below,
        starts_with,
        current=text[span.start : span.end],
        name=None if has_fences else file_name(source.uri),
        closable=syntax.closable,
        quotes=syntax.quotes,
        has_fences=has_fences,
        brackets=partial(find_brackets, table=table) if table.grammar else lexical_brackets,
    )
    return HoleSurroundings(
        span=span,
        table=table,
        starts_with=starts_with,
        line_prefix=above[line_start(above, len(above)) :],
        line_suffix=below[: end - span.end],
        is_last=is_blank(text[end : end + _MAX_SIDE_CHARACTERS]),
        ending=ending,
        is_in_expression=ending.is_in_brackets if view is None else bool(open_brackets_in_block(syntax.brackets)),
        brackets=syntax.brackets,
        literal=None if ending.replaced_closers else syntax.literal,
    )


def _is_unparsed(view: SyntaxView, offset: int) -> bool:
    """Whether the grammar reads the code here as one token, as a macro's in C."""
    leaf = view.leaf_at(offset - 1)
    if leaf is None or leaf.child_count or string_or_comment_at(view, offset):
        return False
    code = view.code(leaf)
    return len(code) > 1 and any(find_brackets(code, view.table))


_LINE_ENDS = frozenset(":;,{")
"""The last character of a line that a fill may repeat, as `y:` does before `.copy():`."""
_LeastBroken = Callable[..., str]
"""Takes `HoleSurroundings` and some fills; returns the fill that leaves the fewest errors."""


def cut_repeated_line_suffix(hole: HoleSurroundings, fill: str, fill_with_fewest_errors: _LeastBroken) -> str:
    """Cuts an ending that repeats the line's suffix. Where a quote or the text after the fill matters, the parse
    decides.
    """
    if hole.literal:  # prose has no pairs, but the full stop or quote may be intended
        cuts = hole.ending.line_suffix_cuts(fill.rstrip())
        return next((cut for cut in cuts if has_letter(fill[len(cut) :])), fill)
    shorter = hole.ending.without_line_suffix(fill)
    if shorter != fill:
        splits_quotes = any(fill.rstrip()[len(shorter) :].count(quote) % 2 for quote in hole.table.quotes)
        return fill_with_fewest_errors(hole, shorter, fill) if splits_quotes else shorter
    alternatives = [shorter] if (shorter := hole.ending.text_before_line_suffix(fill)) else []
    last = hole.line_suffix.rstrip()[-1:]
    if not alternatives and last in _LINE_ENDS and fill.rstrip().endswith(last):
        alternatives = [fill.rstrip()[:-1]]
    return fill_with_fewest_errors(hole, fill, *alternatives)


def cut_swallowing_comment(hole: HoleSurroundings, fill: str) -> str:
    """Cuts a comment that would swallow the rest of the line."""
    is_end = is_blank(hole.line_suffix) and hole.ending.add_replaced_closers(fill) == fill
    first = len(hole.ending.part_in_string(fill) + hole.ending.replaced_closers.rstrip(")]}"))
    offset = -1 if is_end else trailing_comment_start(fill[first:].rstrip(), hole.table)
    return fill if offset < 0 else fill[: first + offset].rstrip()


_BY_COLUMN = (("yaml",), ("markdown",))
"""Languages where deeper lines belong to the one above them."""
_BLOCK_QUOTES = (*_TRIPLE_QUOTES, "`", "<<")
"""The starts of multiline strings, whose lines keep their indentation."""
_COMMENTED = re.compile(r"\s*(?:#|//|--|\*|/\*)")
_OPENS_BLOCK = (
    r"[{:]\s*$|\b(?:then|do|else|begin|repeat|loop|try|in)\s*$|\bdo\s*\|[^|]*\|\s*$"
    r"|^\s*(?:if|elsif|elseif|unless|while|until|for|case|when|def|class|module|function)\b[^;{]*$|\bfunction\b[^()]*\([^()]*\)\s*$"
)
"""A line, in any language, that opens a block: deeper lines after it belong to that."""
_CONTINUED = re.compile(r"(?:[(\[,\\=+*/&|?<>.-]|\b(?:and|or|not|in|return))\s*$")
"""A line that continues on the next one."""


class DropReason(StrEnum):
    """Why a fill is not worth showing, worded to follow `what it wrote`."""

    UNREADABLE = "is not valid text"
    INVISIBLE = "has invisible characters"
    NOT_AS_TYPED = "does not begin with the typed text"
    EMPTY = "is empty"
    CLOSES = "only ends what it did not begin"
    LEAVES_OPEN = "leaves a bracket open"
    REPEATS_BELOW = "repeats the lines below"
    REPEATS_SUFFIX = "repeats the text after the hole"
    REPEATS_ABOVE = "repeats the line above"
    TELLS_NAME = "only tells the name of the file"
    UNCHANGED = "is already there"
    NEW_HOLE = "leaves a hole"
    UNSURE = "is too unsure to appear by itself"


def describe_drops(drops: Mapping[DropReason, int]) -> str:
    """All reasons with their counts, most frequent first."""
    ordered = sorted(drops.items(), key=lambda item: -item[1])
    return ", ".join(f"{reason.value} ({count}\u00d7)" for reason, count in ordered)


class FillPostprocessor:
    """Fits fills to the holes of one source, in one thread. `drops` counts the reasons for showing nothing, such as
    another `marker`.
    """

    def __init__(
        self, source: Source, deadline: FitDeadline | None = None, marker: str = "", *, repairs_end: bool = True
    ) -> None:
        """`repairs_end`: whether to repair the ends of fills, which takes parses; not for many holes."""
        self._source = source
        self._deadline = deadline or FitDeadline()
        self._marker = marker
        self._repairs_end = repairs_end
        self._named = _replace_markers(source, marker, self._deadline)
        self._view = SyntaxView.from_source(self._named)
        self.drops = Counter[DropReason]()
        self._cached: tuple[HoleSpan, HoleSurroundings] | None = None

    def fit(self, span: HoleSpan, fill: str, unlikely_offset: int | None = None) -> str | None:
        """The text to insert for `span`, starting with `span.starts_with`; None if nothing is worth showing.

        Cuts what repeats the hole's surroundings, and adopts their indentation and line ends. Uses only the part of
        `fill` before its `unlikely_offset`, if it has one, but the whole line of a comment that the user has begun.
        """
        hole = self._surroundings(span)
        result = self._postprocess(hole, fill)
        if unlikely_offset is not None and hole.is_begun_comment(fill):
            unlikely_offset = max(unlikely_offset, len(fill.partition("\n")[0]))
        if unlikely_offset is not None and (result is DropReason.LEAVES_OPEN or not isinstance(result, DropReason)):
            result = self._fit_up_to_low_prob(hole, fill, unlikely_offset, result)
        if not isinstance(result, DropReason) and adds_invisible(result, self._source.text, span.starts_with):
            result = DropReason.INVISIBLE
        if isinstance(result, DropReason):
            self.drops[result] += 1
            return None
        return result

    def _fit_up_to_low_prob(
        self, hole: HoleSurroundings, fill: str, unlikely_offset: int, whole: str | DropReason
    ) -> str | DropReason:
        """Fits the part of a fill before `unlikely_offset`: `whole`, the fitted fill, if that ends before it.

        UNSURE if little remains, or if the fill replaces text, which a part of it would lose.
        """
        if whole == self._postprocess(hole, fill[:unlikely_offset], repairs_end=False) != DropReason.LEAVES_OPEN:
            return whole
        replaced = self._source.text[hole.span.start + len(hole.span.starts_with) : hole.span.end]
        if not (is_blank(replaced) or hole.ending.replaced_closers):
            return DropReason.UNSURE
        part = hole.ending.cut_at_low_prob(fill, unlikely_offset)
        cut = self._postprocess(hole, part, repairs_end=False)
        if isinstance(cut, DropReason) or not hole.ending.is_enough(cut[len(hole.starts_with) :], fill[len(part) :]):
            return DropReason.UNSURE
        return cut

    def _postprocess(self, hole: HoleSurroundings, fill: str, *, repairs_end: bool = True) -> str | DropReason:
        fill = normalise_line_ends(fill)
        if _BROKEN in fill or not fill.startswith(hole.starts_with):
            return DropReason.UNREADABLE if _BROKEN in fill else DropReason.NOT_AS_TYPED
        fill = trim_start(hole, self._without_foreign_tokens(fill))
        if hole.span.single_line:
            fill = fill.partition("\n")[0]
        if _is_empty(hole, fill):
            return DropReason.EMPTY
        fill = indent_like_surroundings(hole, self._source.text, fill)
        if not hole.literal and _is_empty(hole, fill := hole.ending.cut_at_block_end(fill)):
            return DropReason.REPEATS_BELOW
        if _is_empty(hole, fill := self._cut_at_closer(hole, fill)):
            return DropReason.CLOSES
        if _is_empty(hole, fill := trim_end(hole, cut_repeated_line_suffix(hole, fill, self._least_broken))):
            return DropReason.REPEATS_SUFFIX
        if not hole.literal:
            if self._marker and self._source.text[hole.span.start : hole.span.end] == self._marker:
                fill = self._cut_before_open_bracket(hole, fill)
            if hole.ending.leaves_bracket_open(fill):
                fill = hole.ending.part_in_string(fill)
            if _is_empty(hole, fill):
                return DropReason.LEAVES_OPEN
            fill = hole.ending.add_replaced_closers(fill)
        return self._finish(hole, self._repair_end(hole, fill) if repairs_end and self._repairs_end else fill)

    def _finish(self, hole: HoleSurroundings, fill: str) -> str | DropReason:
        text, span = self._source.text, hole.span
        if fill == normalise_line_ends(text[span.start : span.end]):
            return DropReason.UNCHANGED
        if not hole.is_in_expression and hole.ending.repeats_line_above(fill):
            return DropReason.REPEATS_ABOVE
        if hole.ending.echoes_file_name(fill):
            return DropReason.TELLS_NAME
        if self._marker and fill.count(self._marker) > text.count(self._marker, span.start, span.end):
            return DropReason.NEW_HOLE
        return add_line_end_before_closer(hole, fill).replace("\n", eol_at(text, span.start))

    def _surroundings(self, span: HoleSpan) -> HoleSurroundings:
        if self._cached is None or self._cached[0] != span:
            self._cached = span, surroundings_of(self._source, span, self._view)
        return self._cached[1]

    def _without_foreign_tokens(self, fill: str) -> str:
        """Cuts a fill before the line with a control token of any model, and before a comment in JSON, unless the file
        has such, too.
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

    def _cut_at_closer(self, hole: HoleSurroundings, fill: str) -> str:
        """Cuts a fill before it would close a bracket or string that was opened before the hole, if a parse agrees."""
        if hole.literal and (hole.literal.unfinished or not hole.literal.closer):
            return fill
        if hole.literal:
            return self._least_broken(hole, hole.ending.part_in_string(fill), fill)
        fill = cut_swallowing_comment(hole, hole.ending.without_line_start(fill))
        return self._least_broken(hole, hole.ending.cut_at_closer(fill), fill)

    def _cut_before_open_bracket(self, hole: HoleSurroundings, fill: str) -> str:
        """Cuts a marker's fill, which is an expression or whole statements, before the line with a bracket that stays
        open and breaks the parse, and before the headers of blocks that would then be empty.
        """
        opened = [] if hole.ending.is_in_prose else unpaired(find_brackets(fill, hole.table))[1]
        cut = fill[: fill.rfind("\n", 0, opened[0][0]) + 1].rstrip() if opened else fill
        is_broken = cut != fill and self._view and count_errors_with(self._named, [hole.span], [fill], self._deadline)
        while is_broken and re.search(_OPENS_BLOCK, cut.rpartition("\n")[2]):
            cut = cut.rpartition("\n")[0].rstrip()
        return cut if is_broken else fill

    def _repair_end(self, hole: HoleSurroundings, fill: str) -> str:
        """Adds or removes one final token (comma, bracket, colon, semicolon) if only that makes the code parse with
        the lines below. Does nothing after the last line, since the errors of unfinished code mean nothing.
        """
        if hole.stays_in_literal(fill) or not is_blank(hole.line_suffix) or hole.is_last:
            return fill
        limit = self._deadline.parse_limit(_REPAIR_PARSE_S)

        def errors(fill: str) -> int | None:
            return count_errors_with(self._named, [hole.span], [fill], self._deadline, limit=limit)

        if not errors(fill):
            return fill
        table = hole.table
        block = ":" if table.by_indentation else " {" if "{" in table.openers else ""
        endings = (block,) if _is_block_header(hole, fill) else (table.statement_end, ",", block)
        repaired = [fill + ending for ending in endings if ending and fill[-1] not in CLOSERS]
        if fill[-1] in ",;":
            repaired = [fill[:-1]]
        return next((text for text in repaired if errors(text) == 0), fill)

    def _least_broken(self, hole: HoleSurroundings, *fills: str) -> str:
        whole = {hole.ending.add_replaced_closers(fill): fill for fill in reversed(fills)}
        return whole[fill_with_fewest_errors(self._named, hole.span, *reversed(whole), deadline=self._deadline)]


def _replace_markers(source: Source, marker: str, deadline: FitDeadline) -> Source:
    """`source` with a name of the same length in place of each marker, where markers break the parse."""
    is_broken = marker in source.text and source.tree is not None and source.tree.root_node.has_error
    limit = deadline.parse_limit() if marker and is_one_line(marker) and is_broken else None
    if limit is None:
        return source
    name = table_of(source.language_id).shortest_expression
    text = source.text.replace(marker, (name * len(marker))[: len(marker)])
    tree = parse(source.language_id, text, limit=limit)
    return source if tree is None else Source(text, source.language_id, tree, source.uri)


def _is_empty(hole: HoleSurroundings, fill: str) -> bool:
    """Whether nothing is left of a fill but its required start."""
    return not fill.startswith(hole.starts_with) or is_blank(fill[len(hole.starts_with) :])


def trim_start(hole: HoleSurroundings, fill: str) -> str:
    """Removes leading blank lines, and leading white space or quotes that the text before the hole already has."""
    head = hole.starts_with
    if not head:
        fill = _without_repeated_quotes(hole.line_prefix, fill)
    tail = fill[len(hole.starts_with) :]
    if hole.literal or (head and not is_blank(head)):
        return fill
    if hole.fill_starts_line and not hole.span.single_line:
        tail = _LEADING_BLANK_LINES.sub("", tail, count=1) if _LEADING_BLANK_LINES.match(tail) else tail
    if (hole.line_prefix + head)[-1:] in (" ", "\t"):
        tail = tail.lstrip(" \t")
    return head + tail


def _without_repeated_quotes(prefix: str, fill: str) -> str:
    """Removes quotes that the hole's triple quote already has, and a fill that only makes a quote a triple one: models
    write these where they would rather begin a new line.
    """
    if prefix[-1:] in ("'", '"') and fill.strip() == 2 * prefix[-1]:
        return ""
    quotes = next((quotes for quotes in _TRIPLE_QUOTES if prefix.endswith(quotes)), "")
    if fill.startswith(quotes):
        tail = fill.removeprefix(quotes)
        return tail if quotes and tail[:1].isalnum() else fill
    return fill.lstrip(quotes[0])


def indent_like_surroundings(hole: HoleSurroundings, text: str, fill: str) -> str:
    """Indents a fill like the text around it: with tabs or spaces, in the same steps, and siblings of the first line
    as deep as that.
    """
    if "\n" not in fill:
        return fill
    outer = indentation(nonblank_line_above(text, hole.span.start) or "", 0)
    own_step = hole.indent.removeprefix(outer) if hole.indent.startswith(outer) else ""
    step = indent_step(text, hole.span.start, own_step or hole.table.indent)
    with_tabs = "\t" in (hole.indent or step)
    lines = fill.split("\n")
    lines[1:] = [_reindent(line, with_tabs, step) for line in lines[1:]]
    is_kept = hole.literal or hole.table.ids[:1] in _BY_COLUMN or any(quotes in fill for quotes in _BLOCK_QUOTES)
    return "\n".join(lines if is_kept else _align(hole, lines, step))


def _align(hole: HoleSurroundings, lines: Sequence[str], step: str) -> list[str]:
    """Moves the lines to the hole's indentation where the model assumed another one, and each block to one step.
    Continuation lines keep their distance.
    """

    def opens(line: str) -> bool:
        return not _COMMENTED.match(line) and any(
            re.search(regex, line) for regex in (_OPENS_BLOCK, hole.table.opening) if regex
        )

    start = hole.starts_with.count("\n")
    own = indent_width(hole.indent)
    block = takewhile(lambda line: is_blank(line) or indent_width(indentation(line, 0)) >= own, lines[start + 1 :])
    widths = [indent_width(indentation(line, 0)) for line in block if not is_blank(line)]
    if not widths:
        return list(lines)
    first = lines[start] if start else hole.line_prefix + lines[0]
    base = own if own in widths else min(widths)  # the indentation that the model assumed for the first line
    if base == widths[0] > own and opens(first):
        base = own
    elif base == widths[0] > own and (
        _CONTINUED.search(first) or not is_word_char(lines[start + 1].lstrip()[:1], "#/@$\"'-")
    ):
        return list(lines)
    levels = [(base, own)]
    result = list(lines[: start + 1])
    previous = first
    for line in lines[start + 1 :]:
        code = line.lstrip(" \t")
        old = indent_width(indentation(line, 0))
        if code and old < own:
            break
        if code:
            while len(levels) > 1 and old < levels[-1][0]:
                levels.pop()
            if old > levels[-1][0] and opens(previous):
                levels.append((old, levels[-1][1] + indent_width(step)))
            new = max(levels[-1][1] + old - levels[-1][0], 0)
            line = ("\t" * (new // TAB_WIDTH) + " " * (new % TAB_WIDTH) if "\t" in step else " " * new) + code
            previous = code
        result.append(line)
    return [*result, *lines[len(result) :]]


def _reindent(line: str, with_tabs: bool, step: str) -> str:
    lead = indentation(line, 0)
    if with_tabs:
        return lead.replace("    ", "\t") + line[len(lead) :]
    return lead.replace("\t", "    " if "\t" in step else step) + line[len(lead) :]


def _is_block_header(hole: HoleSurroundings, fill: str) -> bool:
    """Whether the fill's last line begins like the header of a block, as with `if`."""
    words = hole.table.header_words.replace(" ", "|")
    line = (hole.line_prefix + fill).rpartition("\n")[2]
    return bool(words) and re.match(rf"\s*(?:\}}\s*)?(?:{words})\b", line) is not None


def add_line_end_before_closer(hole: HoleSurroundings, fill: str) -> str:
    """Adds a line end if the fill began on a new line, and its block's closer would follow on the fill's last line."""
    follows = re.match(rf"\s*(?:{'|'.join(map(re.escape, hole.table.closers)) or '(?!)'})(?!\w)", hole.line_suffix)
    began = hole.span.kind == HoleKind.BODY and "\n" in hole.starts_with
    return f"{fill}\n{indentation(hole.line_prefix, 0)}" if began and follows else fill


def trim_end(hole: HoleSurroundings, fill: str) -> str:
    """Removes trailing blank lines, and trailing white space unless it separates the fill from code, or from a closing
    bracket whose opening one is followed by a space, as in `{ a }`.
    """
    fill = fill.rstrip("\n") if hole.span.single_line else fill.rstrip()
    follows = (hole.ending.add_replaced_closers(fill)[len(fill) :] or hole.line_suffix)[:1]
    if follows and not follows.isspace() and follows not in ")]},;:":
        return fill
    fill = fill.rstrip()
    return f"{fill} " if not _is_empty(hole, fill) and _is_spaced(hole, fill) else fill


def _is_spaced(hole: HoleSurroundings, fill: str) -> bool:
    """Whether a bracket closes right after the hole, and its opening one, on the same line, is followed by a space."""
    is_code = bool(hole.table.strings) and not hole.stays_in_literal(fill)
    bracket = hole.brackets[-1] if hole.brackets and is_code else None
    following = hole.ending.add_replaced_closers(fill)[len(fill) :] or hole.line_suffix
    if bracket is None or CLOSERS.get(bracket.kind) != following[:1] or "\n" in fill:
        return False
    offset = len(hole.line_prefix) - (hole.span.start - bracket.start)
    return offset >= 0 and (hole.line_prefix[offset + 1 :] + fill).startswith(" ")


MAX_PARSED_HOLES = 8
"""Fitting this many takes a few milliseconds at most if nothing is parsed; the ends of more are not repaired."""


def current_hole_texts(snapshot: Snapshot, spans: Sequence[HoleSpan]) -> tuple[str, ...]:
    return tuple(snapshot.text[span.start : span.end] for span in spans)


def postprocess_all(
    snapshot: Snapshot,
    spans: Sequence[HoleSpan],
    candidates: Sequence[FilledHoles],
    deadline: FitDeadline | None = None,
    marker: str = "",
    min_prob: float = 0.0,
) -> tuple[list[FilledHoles], Counter[DropReason]]:
    """The distinct candidates that change something, best first, and the number of dropped fills by reason.

    Those that fill every hole come first, those that break the parse last. When `deadline` runs out, holes keep their
    text. A fill ends before its first token less likely than `min_prob`.
    """
    current = current_hole_texts(snapshot, spans)
    deadline = deadline or FitDeadline()
    fitter = FillPostprocessor(snapshot, deadline, marker, repairs_end=len(spans) <= MAX_PARSED_HOLES)
    results: list[list[str]] = [[] for _ in candidates]
    for index, span in enumerate(spans):  # hole by hole, since neighbours share most of the tree
        is_skipped = index >= MAX_PARSED_HOLES and deadline.is_past
        for candidate, texts in zip(candidates, results, strict=True):
            text = None
            if not is_skipped and index not in candidate.unfilled:
                text = fitter.fit(span, candidate.texts[index], _first_unlikely_offset(candidate, index, min_prob))
            texts.append(current[index] if text is None else text)
    fits: dict[tuple[str, ...], FilledHoles] = {}
    for candidate, fill in zip(candidates, map(tuple, results), strict=True):
        if fill != current:
            fits.setdefault(fill, replace(candidate, texts=fill))
    ordered = [list(fits.values())[index] for index in rank_by_errors(snapshot, spans, list(fits), deadline)]
    return sorted(ordered, key=lambda candidate: count_unfilled(candidate.texts, current)), fitter.drops


def _first_unlikely_offset(candidate: FilledHoles, index: int, min_prob: float) -> int | None:
    """The offset of a text's first token less likely than `min_prob`; None without one or without probabilities."""
    pieces = candidate.pieces[index] if candidate.pieces else ()
    is_known = pieces and candidate.texts[index].startswith("".join(pieces))
    return first_unlikely_offset(pieces, candidate.confidences[index], min_prob) if is_known else None


def count_unfilled(texts: Sequence[str], current: Sequence[str]) -> int:
    return sum(text == old for text, old in zip(texts, current, strict=True))

"""Finds all placeholders in a text, but never code that may be intended: markers, `???` by default, even in a string or
comment, and functions without a body. Markers break the parse, so only tokens count.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice

from tree_sitter import Node

from inference.messages import HoleKind
from lsp_server.holes.blocks import open_brackets, open_brackets_in_block
from lsp_server.holes.functions import FunctionBody, body_of, extent_of, functions_around, header_of, hole_replacing
from lsp_server.holes.segments import HoleSpan
from lsp_server.syntax import lines
from lsp_server.syntax.languages import CLOSERS, table_of
from lsp_server.syntax.lines import is_alone, is_blank, is_one_line, line_end
from lsp_server.syntax.parsing import Source
from lsp_server.syntax.view import SyntaxView, string_or_comment_at

DEFAULT_MARKER = "???"
MAX_MARKERS = 5000
"""Further markers are ignored: no answer fills as many."""


def find_markers(
    source: Source, marker: str = DEFAULT_MARKER, start: int = 0, end: int | None = None
) -> list[HoleSpan]:
    """The first `MAX_MARKERS` within [start, end), left to right. One alone on its line is a `BODY` or a `BLOCK` and
    may become several lines; any other is a `MARKER`.
    """
    offsets = [
        offset
        for offset in _occurrences(source.text, marker, 0, len(source.text) if end is None else end)
        if start <= offset
    ]
    return _spans(source, offsets[:MAX_MARKERS], marker)


def marker_touching(source: Source, marker: str, offset: int) -> HoleSpan | None:
    """The marker that `offset` touches; None if there is none."""
    text = source.text
    near = text[max(offset - len(marker), 0) : offset + len(marker)]
    if marker not in near:
        return None
    first = lines.line_start(text, offset) if lines.is_one_line(marker) else 0  # markers depend on the ones before them
    offsets = _occurrences(text, marker, first, offset + len(marker))
    return next(
        iter(_spans(source, [start for start in offsets if start <= offset <= start + len(marker)][:1], marker)), None
    )


def _occurrences(text: str, marker: str, start: int, end: int) -> Iterator[int]:
    return (match.start() for match in re.compile(re.escape(marker)).finditer(text, start, end))


def _spans(source: Source, offsets: Sequence[int], marker: str) -> list[HoleSpan]:
    view = SyntaxView.from_source(source) if offsets else None
    return [_span(source, view, offset, offset + len(marker)) for offset in offsets]


def _span(source: Source, view: SyntaxView | None, start: int, end: int) -> HoleSpan:
    if not lines.is_alone(source.text, start, end) or (view is not None and _is_inside(view, start)):
        return HoleSpan(start, end, HoleKind.MARKER, single_line=True)
    return HoleSpan(start, end, HoleKind.BODY if _is_whole_body(source, start, end) else HoleKind.BLOCK)


def _is_inside(view: SyntaxView, offset: int) -> bool:
    """Whether `offset` is in a string, a comment, or the brackets of an expression."""
    return bool(string_or_comment_at(view, offset) or open_brackets_in_block(open_brackets(view, offset)))


def _is_whole_body(source: Source, start: int, end: int) -> bool:
    """Whether the statement at [start, end) is alone in its block, as far as indentation tells."""
    text = source.text
    comment = table_of(source.language_id).line_comment
    indent = lines.indentation(text, start)
    below = lines.next_code_line_indent(text, end, comment)
    above = _indent_above(text, start, comment)
    return above is not None and lines.is_deeper(indent, above) and (below is None or lines.is_deeper(indent, below))


def _indent_above(text: str, offset: int, line_comment: str) -> str | None:
    """The indentation of the nearest line above that is neither blank nor a comment; None if there is none."""
    comment = re.escape(line_comment) if line_comment else r"(?!)"
    start = lines.line_start(text, offset)
    while start > 0:
        start = lines.line_start(text, start - 1)
        if not re.match(rf"[ \t]*({comment}|[\r\n\f]|$)", text[start:offset]):
            return lines.indentation(text, start)
    return None


_TODO = r"\b(?:TODO|FIXME)\b|(?i:\bnot (?:yet )?implemented\b|\bimplement (?:me|this)\b|\byour code here\b)"
_INTENTIONAL = r"(?i:\bdo(?:es)? nothing\b|\bnothing to do\b|\bno-?op\b|\bintentional|\bon purpose\b|\bdeliberate)"
_NEVER = r"(?!)"
_MAX_CANDIDATES = 5000
"""How many places to examine; a generated file may have any number."""


def find_placeholders(
    source: Source, marker: str = DEFAULT_MARKER, start: int = 0, end: int | None = None
) -> list[HoleSpan]:
    """All holes within [start, end), in order and without overlaps: the markers, and functions whose body is only
    `...`, `pass`, `todo!()` or the like, is empty, or contains only a comment with TODO.
    """
    end = len(source.text) if end is None else end
    spans = find_markers(source, marker, start, end)
    view = SyntaxView.from_source(source)
    if view is None or source.uri.endswith(view.table.declarations or ("\0",)):
        return spans
    for span in (*_missing_bodies(view, start, end), *_filler_holes(view, start, end)):
        if start <= span.start and span.end <= end:
            _insert(spans, span)
    return spans


def _insert(spans: list[HoleSpan], span: HoleSpan) -> None:
    """Inserts `span` in order, unless it overlaps or touches another span."""
    index = bisect_left(spans, span.start, key=lambda neighbour: neighbour.start)
    near = spans[max(index - 1, 0) : index + 1]
    if all(span.end < neighbour.start or neighbour.end < span.start for neighbour in near):
        spans.insert(index, span)


def _missing_bodies(view: SyntaxView, start: int, end: int) -> Iterator[HoleSpan]:
    visited_ids = set[int]()
    bodies = "|".join(filter(None, (view.table.fillers, view.table.body_fillers, _TODO, view.table.empty)))
    starts = re.compile(f"(?={bodies})").finditer(view.text, start, end)  # the tree gives the extent
    for match in islice(starts, _MAX_CANDIDATES):
        function = next(iter(functions_around(view, match.start(), min(match.start() + 1, end))), None)
        if function is None or function.id in visited_ids:
            continue
        visited_ids.add(function.id)
        body = body_of(view, function)
        span = _missing_body(view, body) if body is not None else None
        if span is not None and not _is_intentional(view, function):
            yield span


def _missing_body(view: SyntaxView, body: FunctionBody) -> HoleSpan | None:
    """The hole of a body that is empty, a filler, or a comment that says what to do."""
    comments = [part for part in body.parts if part.type in view.table.comments]
    code = [part for part in body.parts if part.type not in view.table.comments]
    if code:
        return _filler_hole(view, body, code) if len(code) == 1 else None
    if comments:
        is_todo = any(re.search(_TODO, view.code(comment)) for comment in comments)
        return hole_replacing(view, body, view.end(comments[-1]), ()) if is_todo else None
    return hole_replacing(view, body, body.start, ()) if _is_empty(view, body) else None


def _is_empty(view: SyntaxView, body: FunctionBody) -> bool:
    """Whether there is nothing between the brackets of a body; between words there must be at least an empty line."""
    text, end = view.text, body.end
    is_visibly_empty = not is_one_line(text, body.start, end) or text[end : end + 1] in CLOSERS.values()
    holder = view.parent(body.function)
    table = view.table
    may_be = {body.function.type, holder.type if holder else ""} & (table.closures | table.may_be_empty)
    return body.is_closed and is_visibly_empty and not may_be and is_blank(text[body.start : end])


def _filler_hole(view: SyntaxView, body: FunctionBody, code: list[Node]) -> HoleSpan | None:
    """The only statement of a body, if it is a filler. Comments before it stay."""
    filler, table = view.code(code[0]), view.table
    is_inline = is_one_line(view.text, body.start, view.start(code[0]))
    fillers = "|".join(filter(None, (table.fillers, table.body_fillers))) or _NEVER
    if not re.fullmatch(f"(?:{fillers});?", filler, re.DOTALL) or (is_inline and filler in table.meant_inline):
        return None
    preceding = [part for part in body.parts if part.start_byte < code[0].start_byte]
    return hole_replacing(view, body, view.end(preceding[-1]) if preceding else body.start, code)


def _is_intentional(view: SyntaxView, function: Node) -> bool:
    """Whether a function intentionally has no body, judging by its header, documentation, a comment or its class."""
    start, end = extent_of(view, function)
    text = view.text[start : line_end(view.text, end)]
    if re.search(_INTENTIONAL, text) or (view.table.empty_on_purpose and re.search(view.table.empty_on_purpose, text)):
        return True
    owner = next((node for node in view.ancestors(function) if node.type in view.table.classes), None)
    name = None if owner is None else owner.child_by_field_name("name")
    if owner is None or name is None:
        return False
    is_abstract = view.table.abstract and re.search(view.table.abstract, header_of(view, owner))
    return bool(is_abstract) or _is_inherited(view.text, view.code(name))


@lru_cache(maxsize=4)
def _is_inherited(text: str, name: str) -> bool:
    """Whether other classes in the file inherit from the class `name`, and may define what it lacks."""
    return re.search(rf"\b(?:extends\s+|class\s+\w+\s*[(<:][^{{)\n]*?\b){re.escape(name)}\b", text) is not None


def _filler_holes(view: SyntaxView, start: int, end: int) -> Iterator[HoleSpan]:
    """Placeholders for missing code anywhere: a statement among others, or part of an expression."""
    fillers = view.table.fillers or _NEVER
    for match in islice(re.compile(f"(?={fillers})").finditer(view.text, start, end), _MAX_CANDIDATES):
        if string_or_comment_at(view, match.start()):
            continue
        nodes = [node for node in view.ancestors(view.leaf_at(match.start())) if view.start(node) == match.start()]
        whole = [node for node in nodes if re.fullmatch(fillers, view.code(node).removesuffix(";"), re.DOTALL)]
        if whole:
            end = view.end(whole[-1])
            alone = is_alone(view.text, match.start(), end)
            yield HoleSpan(match.start(), end, HoleKind.BLOCK if alone else HoleKind.EXPRESSION, single_line=not alone)

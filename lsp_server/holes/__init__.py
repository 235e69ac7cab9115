"""Divides a text into holes and pinned parts: text in, spans out. Knows no LSP types, files or worker."""

from lsp_server.holes.cursor import hole_at_cursor
from lsp_server.holes.functions import body_hole_around, function_span_around
from lsp_server.holes.markers import DEFAULT_MARKER, find_markers, find_placeholders
from lsp_server.holes.segments import HoleSpan, build_segments, replace_markers, splice
from lsp_server.holes.selection import hole_in_selection, statement_around, statement_at, statement_start

__all__ = [
    "DEFAULT_MARKER",
    "HoleSpan",
    "body_hole_around",
    "build_segments",
    "find_markers",
    "find_placeholders",
    "function_span_around",
    "hole_at_cursor",
    "hole_in_selection",
    "replace_markers",
    "splice",
    "statement_around",
    "statement_at",
    "statement_start",
]

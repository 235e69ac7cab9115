"""Divides a text into holes and pinned parts: text in, spans out. Knows no LSP types, files or worker."""

from lsp_server.holes.cursor import hole_at_cursor
from lsp_server.holes.functions import body_around, function_around
from lsp_server.holes.markers import DEFAULT_MARKER, markers, placeholders
from lsp_server.holes.segments import HoleSpan, replace_markers, segments, splice
from lsp_server.holes.selection import hole_in_selection, statement_around, statement_at, statement_start

__all__ = [
    "DEFAULT_MARKER",
    "HoleSpan",
    "body_around",
    "function_around",
    "hole_at_cursor",
    "hole_in_selection",
    "markers",
    "placeholders",
    "replace_markers",
    "segments",
    "splice",
    "statement_around",
    "statement_at",
    "statement_start",
]

"""Carving divides a text into holes and pinned parts: text in, spans out. Knows no LSP types, files or worker."""

from lsp_server.carve.cursor import hole_at_cursor
from lsp_server.carve.functions import body_around, function_around
from lsp_server.carve.markers import DEFAULT_MARKER, markers, placeholders
from lsp_server.carve.segments import Span, segments, splice, unmarked
from lsp_server.carve.selecting import selection, statement_around, statement_at, statement_start

__all__ = [
    "DEFAULT_MARKER",
    "Span",
    "body_around",
    "function_around",
    "hole_at_cursor",
    "markers",
    "placeholders",
    "segments",
    "selection",
    "splice",
    "statement_around",
    "statement_at",
    "statement_start",
    "unmarked",
]

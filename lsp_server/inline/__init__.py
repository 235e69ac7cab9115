"""Ghost text: the known suggestions at a cursor, and what the worker computes for it. No LSP types."""

from lsp_server.inline.anchor import Cursor
from lsp_server.inline.request import InlineRequest, OnDraft
from lsp_server.inline.service import CompletionListService, InlineService
from lsp_server.inline.suggestion import ShownSuggestions

__all__ = ["CompletionListService", "Cursor", "InlineRequest", "InlineService", "OnDraft", "ShownSuggestions"]

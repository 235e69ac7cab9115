"""Ghost text: the known suggestions at a cursor, and what the worker computes for it. No LSP types."""

from lsp_server.inline.computation import InlineRequest, InlineResult, OnDraft, ReadDraft
from lsp_server.inline.service import InlineAnswer, InlineService, ListService

__all__ = ["InlineAnswer", "InlineRequest", "InlineResult", "InlineService", "ListService", "OnDraft", "ReadDraft"]

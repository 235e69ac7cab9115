"""Ghost text: the known suggestions at a cursor, and what the worker computes for it. No LSP types."""

from lsp_server.inline.service import InlineAnswer, InlineService, ListService
from lsp_server.inline.suggestion import InlineRequest, InlineResult, OnDraft, ReadDraft

__all__ = ["InlineAnswer", "InlineRequest", "InlineResult", "InlineService", "ListService", "OnDraft", "ReadDraft"]

"""Ghost text: the known suggestions at a cursor, and what the worker computes for it. No LSP types."""

from lsp_server.inline.request import DraftedHole, InlineRequest, InlineResult, OnDraft
from lsp_server.inline.service import InlineAnswer, InlineService, ListService

__all__ = ["DraftedHole", "InlineAnswer", "InlineRequest", "InlineResult", "InlineService", "ListService", "OnDraft"]

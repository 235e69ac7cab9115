"""Ghost text: which suggestions are known at a cursor, and what the worker computes for it. No LSP types."""

from lsp_server.inline.request import DraftedHole, InlineRequest, InlineResult, OnDraft
from lsp_server.inline.service import Answer, InlineService

__all__ = ["Answer", "DraftedHole", "InlineRequest", "InlineResult", "InlineService", "OnDraft"]

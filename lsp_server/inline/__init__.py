"""What is computed for inline completions and by whom it is waited for. No LSP types."""

from lsp_server.inline.computation import ComputationOutcome
from lsp_server.inline.request import Drafted, InlineRequest, OnDraft
from lsp_server.inline.service import Answer, InlineService

__all__ = ["Answer", "ComputationOutcome", "Drafted", "InlineRequest", "InlineService", "OnDraft"]

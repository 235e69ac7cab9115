"""What is computed for inline completions and by whom it is waited for. No LSP types."""

from lsp_server.inline.computation import Outcome
from lsp_server.inline.request import Drafted, OnDraft, Question
from lsp_server.inline.service import Answer, Desk

__all__ = ["Answer", "Desk", "Drafted", "OnDraft", "Outcome", "Question"]

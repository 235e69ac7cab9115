"""What is computed for inline completions and by whom it is waited for. No LSP types."""

from lsp_server.inline.desk import Answer, Desk
from lsp_server.inline.question import Drafted, OnDraft, Question
from lsp_server.inline.work import Outcome

__all__ = ["Answer", "Desk", "Drafted", "OnDraft", "Outcome", "Question"]

"""What is known of the suggestions of a document: which still fit its text, which the user has turned down, and when
none is wanted. Text in, text out: no LSP types, no worker, no clock of its own.
"""

from lsp_server.suggestions.change import Change, difference
from lsp_server.suggestions.debounce import Debounce
from lsp_server.suggestions.memory import Memory
from lsp_server.suggestions.place import Place
from lsp_server.suggestions.suggestion import Cursor, Shown, Suggestion

__all__ = ["Change", "Cursor", "Debounce", "Memory", "Place", "Shown", "Suggestion", "difference"]

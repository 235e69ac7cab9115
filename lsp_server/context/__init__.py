"""Context: the parts of other files that the model sees, both open ones and those the document imports.

Reads files off the event loop, within a token budget and a time limit, and only inside the workspace folders. Never
reads a file that may hold secrets or is switched off. Knows no LSP types and no worker.
"""

from lsp_server.context.gather import Buffer, ContextQuery
from lsp_server.context.provider import ContextSource

__all__ = ["Buffer", "ContextQuery", "ContextSource"]

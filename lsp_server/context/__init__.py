"""Context: what the model is shown of other files, both open ones and those that the document imports.

Files are read off the event loop, within a token budget and a time limit, and only inside the workspace folders. A file
that may hold secrets or is switched off is never read. Knows no LSP types and no worker.
"""

from lsp_server.context.gather import Buffer, ContextQuery
from lsp_server.context.provider import ContextSource

__all__ = ["Buffer", "ContextQuery", "ContextSource"]

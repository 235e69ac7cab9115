"""What the model is shown of other files: parts of what is open, and of what the document imports.

Files are read off the event loop, under a token budget and a time cap, and only inside the workspace folders; never one
that may hold secrets or is switched off. Knows no LSP types and no worker.
"""

from lsp_server.context.provider import ContextSource
from lsp_server.context.query import Buffer, ContextQuery, ReadableFolder

__all__ = ["Buffer", "ContextQuery", "ContextSource", "ReadableFolder"]

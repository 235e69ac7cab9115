"""The parts of other files that the model sees, both open ones and those the document imports.

Reads only inside the workspace folders, off the event loop, and no file that may hold secrets or is switched off.
"""

from lsp_server.context.gather import Buffer, ContextQuery
from lsp_server.context.provider import ContextSource

__all__ = ["Buffer", "ContextQuery", "ContextSource"]

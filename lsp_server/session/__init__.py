"""One editor: its documents, settings and connections, and the listeners for what the user was shown."""

from lsp_server.session.session import Session

__all__ = ["Session"]

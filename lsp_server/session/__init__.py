"""One editor: its documents, its settings, its connections, and who hears what the user was shown."""

from lsp_server.session.session import Session

__all__ = ["Session"]

"""The user's own numbers: shown, accepted, rejected and kept suggestions, in one SQLite file. Never text or file names.

A session reports events to `Usage`. Knows no LSP types, and writes in a separate thread.
"""

from lsp_server.usage.usage import Usage

__all__ = ["Usage"]

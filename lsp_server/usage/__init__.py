"""The user's own numbers: what was shown, taken, rejected and kept, in one SQLite file. Never text, nor names of files.

A session tells `Usage` of what happens. It knows no LSP types, and what it writes goes through a thread of its own.
"""

from lsp_server.usage.usage import Usage

__all__ = ["Usage"]

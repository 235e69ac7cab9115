"""The user's own numbers on suggestions, in one SQLite file. Never text or file names. Knows no LSP types."""

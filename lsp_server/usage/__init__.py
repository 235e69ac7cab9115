"""The user's own numbers on suggestions, as counters in one SQLite file. Never text or file names. No LSP types."""

"""The user's own statistics on suggestions: counters in one SQLite file, without text or file names. No LSP types."""

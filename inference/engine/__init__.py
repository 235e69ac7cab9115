"""The engine: segments in, drafts and candidates out. Knows no files, sockets, editors or model families."""

"""Filling holes: build the request, ask the worker, fit what comes back. No LSP types.

`pipeline.fill` is the only way from holes to texts; `drafts` does the same for what the canvas holds meanwhile.
"""

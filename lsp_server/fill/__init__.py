"""Filling holes: build the request, ask the worker, fit what comes back. No LSP types."""

"""The LSP methods. A handler is called on arrival and takes its snapshot before it returns an awaitable."""

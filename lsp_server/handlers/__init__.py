"""The LSP methods. A handler is called on arrival; if it is a coroutine, it begins before the next message is read."""

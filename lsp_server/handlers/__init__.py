"""The LSP methods: unpack, snapshot, call the domain, convert.

A handler is a function of the session and the method's params. It is called on arrival and must take its snapshot
before it returns; slow work goes into the coroutine that it returns.
"""

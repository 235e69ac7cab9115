"""The LSP methods: unpack, snapshot, call the domain, convert.

A handler is called on arrival and takes its snapshot before it returns; slow work goes into the coroutine that it
returns.
"""

"""Records what a checkout answers, so that a change of the inside can be shown to change nothing outside.

It speaks the protocols, as they are in the checkout that this file is in: LSP to the server, the worker's own to the
server and the engine. So it runs against every commit, whatever has moved inside; the inputs are of this checkout, too.
"""

"""Syntax: languages, trees, lines and words of a text. Imports nothing else from the server."""

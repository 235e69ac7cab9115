"""Canvases: a request as tokens and rows, the tokens each row may become, and rows as text again."""

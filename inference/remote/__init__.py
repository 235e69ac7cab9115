"""Infillers that are somebody else's server. Nothing here computes: no torch, no transformers."""

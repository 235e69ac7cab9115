"""Fills holes by asking remote servers. Nothing here computes: no torch, no transformers."""

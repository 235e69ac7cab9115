"""Turns rows of a canvas into logits: one folder per model family, behind the protocol in family.py."""

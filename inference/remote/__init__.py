"""Fills holes with models on remote servers. Computes nothing itself: no torch, no transformers."""

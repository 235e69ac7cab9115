"""Fills the holes of canvases: lengths, denoising, continuations, ranking."""

"""Fills the holes of canvases: lengths, denoising, ranking."""

"""How the holes of canvases are filled: lengths, denoising, continuations, ranking."""

"""How the embedded checkpoint is made, and how a large one is tuned for infilling. `run.py` is the whole recipe.

Knows nothing of the worker, of requests or of LSP; the engine only reads the folders it writes.
"""

"""How the embedded checkpoint is made, and how a big one is tuned for infilling. `run.py` is the whole recipe.

It knows nothing of the worker, of requests or of LSP; the engine only reads the folders it writes.
"""

"""The resident worker and the engine. Nothing here knows LSP. Importing this package imports nothing else."""

"""The language server: LSP and text. Nothing here imports torch or transformers."""

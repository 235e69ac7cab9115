"""Asks an existing autoregressive server: vLLM, llama.cpp, Ollama, or any with their interfaces.

apis.py has the ways to ask: `/v1/completions` with fill-in-the-middle tokens or a suffix, llama.cpp's `/infill`,
or a conversation, the only way to show it a draft to improve. backend.py finds out which one to use.
"""

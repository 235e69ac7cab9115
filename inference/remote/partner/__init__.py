"""Fills holes with an existing autoregressive server: vLLM, llama.cpp, Ollama, or any with their APIs.

apis.py has these APIs: `/v1/completions` with fill-in-the-middle tokens or a suffix, llama.cpp's `/infill`, and chat,
the only one that can improve a draft. backend.py finds out which one to use.
"""

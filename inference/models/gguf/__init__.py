"""Checkpoints in one GGUF file, as llama.cpp, Ollama and LM Studio use them: header, weights and tokenizer.

A file may come from anywhere: everything is checked before memory is reserved for it, and no code is run.
"""

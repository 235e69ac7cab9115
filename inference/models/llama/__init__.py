"""Llama-shaped networks: their configuration, weights and passes, for the families `fim` and `masked`."""

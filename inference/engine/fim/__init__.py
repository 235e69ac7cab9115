"""Fills the middle between a prefix and a suffix with a causal model: prompt, text, candidates, several holes."""

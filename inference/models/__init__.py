"""How rows of a canvas become logits: one folder per family of models, behind the protocol in family.py."""

"""Embeddings for a new vocabulary, made of those of an old one, so that a run can go on with another tokenizer.

An entry starts as the mean of the embeddings of the old tokens that spell it; a special token starts as the old one of
the same name. An entry without a counterpart starts at random, with the mean and spread of the old ones.
"""

import torch
from tokenizers import Tokenizer
from torch import Tensor

_SPACE = "\u2581"


def embeddings(old: Tokenizer, weights: Tensor, new: Tokenizer, *, first_text: int, seed: int) -> Tensor:
    """(V, d) for the `new` tokenizer, which is of Gemma's kind, from the (V', d) `weights` of the old one."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(new.get_vocab_size(), weights.shape[1], generator=generator) * weights.std(0) + weights.mean(0)
    for number in range(len(table)):
        ids = _counterparts(old, new.id_to_token(number) or "", special=number < first_text)
        if ids:
            table[number] = weights[ids].mean(0)
    return table


def _counterparts(old: Tokenizer, piece: str, *, special: bool) -> list[int]:
    """The old tokens that stand for an entry of the new vocabulary."""
    if special:
        found = old.token_to_id(piece)
        return [] if found is None else [found]
    if piece.startswith("<0x"):
        return []
    return old.encode(piece.replace(_SPACE, " "), add_special_tokens=False).ids

"""Embeddings for a new vocabulary, made of those of an old one, so that a run can go on with another tokenizer.

An entry starts as the mean of the embeddings of the old tokens that spell it; a special token starts as the old one of
the same name. An entry without a counterpart starts at random, with the mean and spread of the old ones.
"""

from collections.abc import Callable

import torch
from tokenizers import Tokenizer
from torch import Tensor

_SPACE = "\u2581"


def of_gemma(piece: str) -> str:
    """The text that an entry of Gemma's kind stands for; empty for a single byte."""
    return "" if piece.startswith("<0x") else piece.replace(_SPACE, " ")


def embeddings(
    old: Tokenizer,
    weights: Tensor,
    new: Tokenizer,
    *,
    first_text: int,
    seed: int,
    text_of: Callable[[str], str] = of_gemma,
) -> Tensor:
    """(V, d) for the `new` tokenizer from the (V', d) `weights` of the old one. `text_of` reads an entry of the new."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(new.get_vocab_size(), weights.shape[1], generator=generator) * weights.std(0) + weights.mean(0)
    for number in range(len(table)):
        piece = new.id_to_token(number) or ""
        ids = _special(old, piece) if number < first_text else _spelled(old, text_of(piece))
        if ids:
            table[number] = weights[ids].mean(0)
    return table


def _special(old: Tokenizer, name: str) -> list[int]:
    found = old.token_to_id(name)
    return [] if found is None else [found]


def _spelled(old: Tokenizer, text: str) -> list[int]:
    """The old tokens that stand for a text."""
    ids: list[int] = old.encode(text, add_special_tokens=False).ids
    return ids

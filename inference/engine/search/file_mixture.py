"""Mixes a model's distribution with that of an n-gram model of the file itself: see engine/canvas/file_text.py."""

from collections.abc import Sequence

import torch
from torch import Tensor

from inference.engine.canvas.file_text import LONGEST_MATCH, FileText


def mixed(file: FileText, logits: Tensor, tails: Sequence[Sequence[int]]) -> Tensor:
    """(K, V) logits after each tail -> (K, V) log-probabilities of the mixture."""
    found = [file.followers(tail) for tail in tails]
    shares = torch.tensor([each.share for each in found], device=logits.device)[:, None]
    probabilities = logits.softmax(-1) * (1 - shares)
    rows = [row for row, each in enumerate(found) for _ in each.tokens]
    tokens = [token for each in found for token in each.tokens]
    parts = [each.share / len(each.tokens) for each in found for _ in each.tokens]
    places = (torch.tensor(rows, dtype=torch.long), torch.tensor(tokens, dtype=torch.long))
    probabilities.index_put_(
        tuple(place.to(logits.device) for place in places), torch.tensor(parts, device=logits.device), True
    )
    return probabilities.log()


def rescored(file: FileText, log_probabilities: Tensor, before: Sequence[int], ids: Sequence[int]) -> Tensor:
    """(n,) the model's log-probabilities of the last n of `ids`, which follow `before` -> (n,) the mixture's."""
    text = [*before[-LONGEST_MATCH:], *ids]
    start = len(text) - len(log_probabilities)
    found = [file.followers(text[max(0, end - LONGEST_MATCH) : end]) for end in range(start, len(text))]
    shares = torch.tensor([each.share for each in found], device=log_probabilities.device)
    parts = [each.part(id_) for each, id_ in zip(found, text[start:], strict=True)]
    copied = torch.tensor(parts, device=log_probabilities.device)
    return torch.logaddexp(log_probabilities + (-shares).log1p(), copied.log())

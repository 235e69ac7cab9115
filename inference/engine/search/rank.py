"""Scores candidates by the exact causal likelihood of their fills and of the first tokens that follow, in one extra
pass.

This is the reranking of PILL, with exact probabilities. A model without a causal likelihood is ranked by the
probabilities of the tokens it chose. The suffix has its own mean, so that it weighs the same behind any fill. The sum
over a line is divided by a little more than its length (Wu et al., 2016, https://arxiv.org/abs/1609.08144, alpha 1), or
a line that repeats itself would win. The numbers were chosen on tuning files, together with those of pruning.py.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from inference.engine.canvas.file_text import LONGEST_MATCH, FileText
from inference.engine.canvas.fills import Written
from inference.models.family import Context

_LEAST = 1e-9


class ScoreWeights(NamedTuple):
    """An offset for the number of a fill's tokens, the weight of its suffix, and how much of that to read.

    `length` is added to the score for each e-fold of the fill's tokens, if lengths are guessed and short fills would
    win too often. `unusual` is subtracted for a length e times or an e-th of the usual one, four times as much for e²,
    and so on. `end` weighs how likely the hole ends there (length_probe.py).
    """

    smoothing: float
    suffix: float
    suffix_tokens: int
    length: float = 0.0
    unusual: float = 0.0
    end: float = 0.0


REST_OF_LINE = ScoreWeights(smoothing=3.0, suffix=2.0, suffix_tokens=8)
PART_OF_LINE = ScoreWeights(smoothing=3.0, suffix=2.0, suffix_tokens=8)
SEVERAL_LINES = ScoreWeights(smoothing=0.0, suffix=4.0, suffix_tokens=16)


@dataclass(frozen=True)
class Judged:
    """The tokens of one candidate from the first hole to the end of the last, and the pinned ones that follow."""

    fill: Sequence[int]
    suffix: Sequence[int]
    weights: ScoreWeights
    typed: float = 0.0
    """The log-probability of a given start; the fill gets neither credit nor blame for it."""


@torch.inference_mode()
def scores(
    context: Context, candidates: Sequence[Judged], prefix: Sequence[int] = (), file_text: FileText | None = None
) -> list[float]:
    """The mean log-probability per token of each candidate, weighted with that of its suffix; higher is better.

    `context` is the prefix up to the first hole. Without a prefix, a fill's first token has no score. With a
    `file_text` its predictions count too; `prefix` are then the tokens before the first hole.
    """
    continuations = [[*one.fill, *one.suffix] for one in candidates]
    known = context.log_probabilities(continuations)
    if file_text is not None:
        known = [_with_file(each, one, prefix, file_text) for each, one in zip(known, candidates, strict=True)]
    return [_score(each, one) for each, one in zip(known, candidates, strict=True)]


def _with_file(known: Tensor, one: Judged, prefix: Sequence[int], file_text: FileText) -> Tensor:
    """The fill's part mixed with the file's. Not the suffix, which is in the file and would predict itself."""
    fill, suffix = known[: len(known) - len(one.suffix)], known[len(known) - len(one.suffix) :]
    return torch.cat([rescored(file_text, fill, prefix, one.fill), suffix])


def by_confidence(written: Written) -> float:
    """The mean log-probability of the tokens a model chose, if it cannot score them afterwards."""
    chosen = [written.confidences[row] for _, first, end in written.spans for row in range(first, end)]
    return sum(math.log(max(sure, _LEAST)) for sure in chosen) / len(chosen) if chosen else 0.0


def _score(log_probabilities: Tensor, one: Judged) -> float:
    """The weighted mean of the fill's and the suffix's scores, if there are any."""
    fill = len(log_probabilities) - len(one.suffix)
    inside, behind = float(log_probabilities[:fill].sum()) - one.typed, log_probabilities[fill:]
    return weighted(inside, fill, float(behind.mean()) if len(behind) else None, one.weights)


def weighted(fill: float, tokens: int, suffix: float | None, weights: ScoreWeights) -> float:
    """The score of a fill of log-probability `fill` whose suffix has this mean log-probability, None without one."""
    score = fill / max(1.0, tokens + weights.smoothing)
    score = score if suffix is None else (score + weights.suffix * suffix) / (1 + weights.suffix)
    return score + weights.length * math.log(max(1, tokens))


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

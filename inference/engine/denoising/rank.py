"""Ranks the different answers for the holes of one canvas: by their likelihood, or by masking them again.

With a causal likelihood: the exact one of a fill and of the first tokens that follow, in one extra pass. This is the
reranking of PILL, with exact probabilities. The suffix has its own mean, so that it weighs the same after any fill.
The sum over a line is divided by a little more than its length (Wu et al., 2016, https://arxiv.org/abs/1609.08144,
alpha 1), or a line that repeats itself would win.

By masking: the probabilities with which a masked model wrote its tokens favour short fills. By the chain rule, the
likelihood of a fill and of the tokens after it is a product of predictions, each made while everything later is
masked: the fill in a few parts, then the text after it. Tokens of one part count as independent. A length is less
likely the further it is from the usual one.

Most lengths of a line are tried, and the text after the hole weighs much, because a fill that stops too early is
likely by itself. For several lines the likelihood prefers the shortest, so only usual lengths are tried. The numbers
were chosen on tests/data/tuning.jsonl.gz with tests/data/twin and tests/data/masked, whose cards have the tables.
"""

import itertools
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple

import torch

from inference.engine.canvas import results
from inference.engine.canvas.layout import CanvasHole, CanvasPlan
from inference.engine.canvas.results import FilledCanvas, RankedFill
from inference.engine.denoising import length
from inference.engine.loaded_model import LoadedModel
from inference.models.family import ModelTraits, PrefixHandle
from inference.models.infill_config import HoleNoise

_LINE_ENDS = (b"\n", b"\r")
NUM_MASKED_PARTS = 5
"""How many passes score a fill; one more scores the text after it."""


class ScoreWeights(NamedTuple):
    """An offset for the number of a fill's tokens, the weight of its suffix, and how much of that to read.

    `length` is added to the score for each e-fold of the fill's tokens, if lengths are guessed and short fills would
    win too often. `length_deviation` is subtracted for a length e times or an e-th of the usual one, four times as much
    for e², and so on.
    """

    smoothing: float
    suffix: float
    suffix_tokens: int
    length: float = 0.0
    length_deviation: float = 0.0


MULTILINE_WEIGHTS = ScoreWeights(smoothing=0.0, suffix=4.0, suffix_tokens=16)
_REST_OF_LINE = ScoreWeights(smoothing=3.0, suffix=4.0, suffix_tokens=16, length=0.15)
_PART_OF_LINE = ScoreWeights(smoothing=3.0, suffix=8.0, suffix_tokens=16)
_MASKED_LINE = ScoreWeights(smoothing=2.0, suffix=1.0, suffix_tokens=4, length_deviation=0.2)
_NUM_LINE_LENGTHS = 14


def ranks_by_masking(traits: ModelTraits) -> bool:
    """Whether to rank fills of one line by masking them again: of a masked model that cannot score."""
    return traits.noise is HoleNoise.MASK and not traits.can_resize and not traits.can_score


def num_lengths_to_try(traits: ModelTraits, holes: Sequence[CanvasHole]) -> int:
    """How many choices of the holes' lengths to try."""
    if all(hole.single_line for hole in holes):
        return _NUM_LINE_LENGTHS
    return 1 if ranks_by_masking(traits) else 3


class FillRanker:
    """Ranks the answers for the holes of one canvas. `context` has read its prefix."""

    def __init__(self, model: LoadedModel, context: PrefixHandle, plan: CanvasPlan) -> None:
        self._model = model
        self._context = context
        self._plan = plan
        self.uses_masking = ranks_by_masking(model.traits) and all(hole.single_line for hole in plan.holes)
        self.weights = self._weights()

    def rank(
        self, canvases: Sequence[FilledCanvas], *, quick: bool = False, scores: Sequence[float] | None = None
    ) -> list[RankedFill]:
        """The different fills, best first; those with half a character or an empty hole come last.

        `quick`: does not score a single fill. `scores`: the scores, if already computed.
        """
        count = len(canvases)
        scores = scores or ([0.0] * count if count == 1 and quick else self._scores(canvases))
        return results.rank_fills(self._model.vocabulary, self._plan.holes, canvases, scores)

    def _scores(self, canvases: Sequence[FilledCanvas]) -> list[float]:
        """The score of each canvas, higher is better: its mean confidence if the model cannot score texts."""
        if not self._model.traits.can_score:
            return [canvas.mean_logprob for canvas in canvases]
        ends = [canvas.spans[-1][2] for canvas in canvases]
        pairs = [
            (canvas.ids[:end], canvas.ids[end : end + self.weights.suffix_tokens])
            for canvas, end in zip(canvases, ends, strict=True)
        ]
        return fill_scores(self._context, pairs, self.weights)

    def _weights(self) -> ScoreWeights:
        """The weights, which depend on whether all holes are single-line and whether the line continues after them."""
        if not all(hole.single_line for hole in self._plan.holes):
            return MULTILINE_WEIGHTS
        if self.uses_masking:
            return _MASKED_LINE
        following = self._model.vocabulary.bytes_of(list(self._plan.suffix[:1]))
        return _PART_OF_LINE if following and not following.startswith(_LINE_ENDS) else _REST_OF_LINE

    def score_by_masking(
        self,
        canvases: Sequence[FilledCanvas],
        scores: list[float],
        parts: int = NUM_MASKED_PARTS,
        is_late: Callable[[], bool] = lambda: False,
    ) -> Iterator[None]:
        """Appends the score of each canvas to `scores`, higher is better. Every `next` makes one pass.

        Scores only the text after the fills if `parts` is 0, or as soon as it is late.
        """
        orders = [_split_into_parts(canvas, parts, self.weights.suffix_tokens) for canvas in canvases]
        fill_logprobs: list[list[float]] = [[] for _ in canvases]
        suffix_logprobs: list[list[float]] = [[] for _ in canvases]
        passes = self._passes(canvases, orders)
        for part in range(parts + 1):
            for new, logprobs in zip(next(passes), suffix_logprobs if part == parts else fill_logprobs, strict=True):
                logprobs += new
            yield
            if part + 1 < parts and is_late():
                yield from self.score_by_masking(canvases, scores, 0)
                return
        for canvas, fill, suffix in zip(canvases, fill_logprobs, suffix_logprobs, strict=True):
            score = score_with_suffix(sum(fill), len(fill), sum(suffix) / len(suffix) if suffix else None, self.weights)
            sizes = [end - first for _, first, end in canvas.spans]
            scores.append(score - self.weights.length_deviation * length.length_deviation(self._plan.holes, sizes))

    @torch.inference_mode()
    def _passes(
        self, canvases: Sequence[FilledCanvas], orders: Sequence[Sequence[Sequence[int]]]
    ) -> Generator[list[list[float]], None, None]:
        """For each part, in order, the log-probabilities of its tokens on each canvas, all later parts masked."""
        device = self._model.adapter.device
        mask = self._model.infill_config.mask_token_id
        assert mask is not None, "a masked model has one"
        width = max(len(canvas.ids) for canvas in canvases)
        true = torch.tensor([[*canvas.ids, *[0] * (width - len(canvas.ids))] for canvas in canvases], device=device)
        lengths = torch.tensor([[len(canvas.ids)] for canvas in canvases], device=device)
        valid = torch.arange(width, device=device) < lengths
        flat = true.flatten().clone()
        flat[_flat_rows([[row for part in order for row in part] for order in orders], width, device)] = mask
        for part in zip(*orders, strict=True):
            rows = _flat_rows(part, width, device)
            values: list[float] = []
            if len(rows):
                valid_rows = None if bool(valid.all()) else valid
                logits = self._context.predict(flat.view_as(true), rows, valid=valid_rows)
                tokens = true.flatten()[rows]
                values = logits.log_softmax(-1).gather(-1, tokens[:, None])[:, 0].tolist()
                flat = flat.index_put((rows,), tokens)
            remaining = iter(values)
            yield [[next(remaining) for _ in canvas_rows] for canvas_rows in part]


@torch.inference_mode()
def fill_scores(
    context: PrefixHandle, candidates: Sequence[tuple[Sequence[int], Sequence[int]]], weights: ScoreWeights
) -> list[float]:
    """The mean log-probability per token of each candidate, weighted with that of its suffix; higher is better.

    A candidate is its tokens from the first hole to the end of the last, and the pinned ones that follow. `context` is
    the prefix up to the first hole. Without a prefix, a fill's first token has no score.
    """
    scores = []
    all_logprobs = context.log_probabilities([[*fill, *suffix] for fill, suffix in candidates])
    for logprobs, (_, suffix) in zip(all_logprobs, candidates, strict=True):
        count = len(logprobs) - len(suffix)
        suffix_logprob = float(logprobs[count:].mean()) if suffix else None
        scores.append(score_with_suffix(float(logprobs[:count].sum()), count, suffix_logprob, weights))
    return scores


def score_with_suffix(fill: float, tokens: int, suffix: float | None, weights: ScoreWeights) -> float:
    """The score of a fill of log-probability `fill` whose suffix has this mean log-probability, None without one."""
    score = fill / max(1.0, tokens + weights.smoothing)
    score = score if suffix is None else (score + weights.suffix * suffix) / (1 + weights.suffix)
    return score + weights.length * math.log(max(1, tokens))


def _split_into_parts(canvas: FilledCanvas, parts: int, suffix_rows: int) -> list[list[int]]:
    """The open rows in this many parts, from left to right, then up to `suffix_rows` rows after each hole."""
    rows = [row for _, first, end in canvas.spans for row in range(first, end)]
    limits = [*(begin for begin, _, _ in canvas.spans[1:]), len(canvas.ids)]
    suffixes = [
        row
        for (_, _, end), limit in zip(canvas.spans, limits, strict=True)
        for row in range(end, min(end + suffix_rows, limit))
    ]
    edges = [len(rows) * part // max(1, parts) for part in range(parts + 1)]
    return [*(rows[start:end] for start, end in itertools.pairwise(edges)), suffixes]


def _flat_rows(rows_by_canvas: Sequence[Sequence[int]], width: int, device: torch.device) -> torch.Tensor:
    """The rows of each canvas as indices into the flattened (B * W)."""
    flat = [index * width + row for index, rows in enumerate(rows_by_canvas) for row in rows]
    return torch.tensor(flat, dtype=torch.long, device=device)

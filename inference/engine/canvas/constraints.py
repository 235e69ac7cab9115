"""Restricts the tokens of a hole row, by biases on its logits."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from inference.engine.canvas.batch import CanvasBatch
from inference.engine.canvas.layout import Slots
from inference.engine.canvas.vocabulary import Vocabulary
from inference.models.properties import ENTROPY_BOUND, Properties

FORBIDDEN = -1e9
"""Added to the logit of a forbidden token. Finite, so that 0 * log 0 stays 0 in an entropy."""

_ANY, _SINGLE_LINE = 0, 1

Given = tuple[int, int, bytes]
"""A hole's number, a canvas's number, and the bytes that the hole's first open row begins with there."""


@dataclass(frozen=True)
class Constraint:
    """The tokens each hole row may become: (K, V) biases on the logits, and the index of the bias for each row (N,)."""

    biases: Tensor
    of_row: Tensor


class Constraints:
    """Builds a canvas's constraint: text only, some of it before a line break in a single-line hole, a given start."""

    def __init__(self, vocabulary: Vocabulary, properties: Properties, size: int, device: torch.device) -> None:
        """`size`: V of the model's logits, which may be larger than the tokenizer's vocabulary."""
        self._vocabulary, self._properties, self._size, self._device = vocabulary, properties, size, device

    def of(
        self, canvas: CanvasBatch, holes: Sequence[Slots], *, slack: bool = False, given: Sequence[Given] = ()
    ) -> Constraint:
        """The constraint of canvases with these holes; `slack` allows that token, `given` are starts on one canvas."""
        kinds = torch.zeros(canvas.pinned.shape, dtype=torch.long, device=self._device)
        biases = [self._any, self._single_line]
        for number, hole in enumerate(holes):
            start = None if hole.allowed is None else len(biases)
            biases += [] if hole.allowed is None else [self._only(hole.allowed)]
            for index, spans in enumerate(canvas.spans):
                begin, first, end = spans[number]
                kinds[index, first:end] = _SINGLE_LINE if hole.single_line else _ANY
                if start is not None and first == begin + len(hole.forced):
                    kinds[index, first : first + 1] = start
        for number, index, value in given:
            kinds[index, canvas.spans[index][number][1]] = len(biases)
            biases.append(self._only(self._vocabulary.starting_with(value, single_line=holes[number].single_line)))
        table = torch.stack(biases)
        for token in self._resizing:
            table[[_ANY, _SINGLE_LINE], token] = 0.0
        if slack and self._properties.slack_token_id is not None:
            table[[_ANY, _SINGLE_LINE], self._properties.slack_token_id] = 0.0
        return Constraint(table, kinds.flatten()[canvas.hole_rows])

    @property
    def _resizing(self) -> list[int]:
        """The tokens that change a hole's number of rows, if the loop interprets them."""
        stated = self._properties
        if stated.sampler.method == ENTROPY_BOUND or stated.expand_token_id is None or stated.delete_token_id is None:
            return []
        return [stated.expand_token_id, stated.delete_token_id]

    @property
    def text(self) -> Tensor:
        """(V,) the bias that allows any text and nothing else. Do not modify."""
        return self._any

    @cached_property
    def _any(self) -> Tensor:
        bias = torch.zeros(self._size, device=self._device)
        bias[: self._properties.first_text_token_id] = FORBIDDEN
        bias[list(self._vocabulary.special_ids)] = FORBIDDEN
        bias[len(self._vocabulary) :] = FORBIDDEN
        return bias

    @cached_property
    def _single_line(self) -> Tensor:
        bias = self._any.clone()
        bias[self._vocabulary.line_break_ids] = FORBIDDEN
        return bias

    def _only(self, allowed: Sequence[int]) -> Tensor:
        """These tokens, restricted to writable ones; if there are none, all of these, since they are given."""
        only = torch.full((self._size,), FORBIDDEN, device=self._device)
        ids = list(allowed)
        only[ids] = self._any[ids] if bool((self._any[ids] == 0).any()) else 0.0
        return only

"""Adds and removes hole rows between two steps, for a model that writes tokens for that (DreamOn)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from inference.engine.canvas.batch import CanvasBatch
from inference.engine.canvas.layout import OPEN, HoleRows, Row


@dataclass(frozen=True)
class Resizing:
    """The token that doubles a row, the one that removes it, and the least and most open rows of each hole."""

    expand_id: int
    delete_id: int
    limits: Sequence[tuple[int, int]]
    budget: int
    """How many rows of a canvas may be doubled: a model may double and remove the same row without end."""

    def allowed(self, canvas: CanvasBatch, doubled: Sequence[int], *, last: bool) -> tuple[Tensor, Tensor]:
        """(N,) bool each: whose hole may grow, and shrink. `doubled`: how many rows of each canvas have been."""
        grows = torch.zeros(canvas.pinned.shape, dtype=torch.bool)
        shrinks = grows.clone()
        for index, spans in enumerate(canvas.spans):
            for (_, first, end), (least, most) in zip(spans, self.limits, strict=True):
                grows[index, first:end] = end - first < most and doubled[index] < self.budget and not last
                shrinks[index, first:end] = end - first > least
        rows = canvas.hole_rows.cpu()
        return grows.flatten()[rows].to(canvas.pinned.device), shrinks.flatten()[rows].to(canvas.pinned.device)


def resized(
    canvas: CanvasBatch, tokens: Tensor, masked: Tensor, rules: Resizing
) -> tuple[CanvasBatch, Tensor, Tensor] | None:
    """The canvases after applying the rows that hold a token of `rules`; None if no written row does.

    Also returns (N',) the old hole row number of each new one, and (N',) bool which are new and masked. `tokens` (N,)
    and `masked` (N,) are those of the hole rows. Rows that would resize a hole beyond its limits become masked again.
    """
    says = ~masked & ((tokens == rules.expand_id) | (tokens == rules.delete_id))
    if not bool(says.any()):
        return None
    ids = canvas.pinned.masked_fill(canvas.is_hole, OPEN).tolist()
    number_of = {row: number for number, row in enumerate(canvas.hole_rows.tolist())}
    width, lengths = canvas.pinned.shape[1], canvas.lengths
    sayings = {number: int(tokens[number]) for number in says.nonzero()[:, 0].tolist()}
    rows, picked, added = [], list[int](), list[bool]()
    for index, spans in enumerate(canvas.spans):
        made: list[int] = []
        new_spans: list[HoleRows] = []
        at = 0
        for (begin, first, end), limits in zip(spans, rules.limits, strict=True):
            made += ids[index][at:first]
            start, size, opened = len(made) - (first - begin), end - first, len(made)
            for row in range(first, end):
                number = number_of[index * width + row]
                copies, fresh, size = _copies(sayings.get(number), size, limits, rules)
                made += [OPEN] * copies
                picked += [number] * copies
                added += [fresh] * copies
            new_spans.append((start, opened, len(made)))
            at = end
        rows.append(Row((*made, *ids[index][at : lengths[index]]), tuple(new_spans)))
    device = tokens.device
    return (
        CanvasBatch.of(rows, device),
        torch.tensor(picked, dtype=torch.long, device=device),
        torch.tensor(added, dtype=torch.bool, device=device),
    )


def _copies(saying: int | None, size: int, limits: tuple[int, int], rules: Resizing) -> tuple[int, bool, int]:
    """For a row with or without such a token: how many rows it becomes, whether they are masked, its hole's size."""
    least, most = limits
    if saying is None:
        return 1, False, size
    if saying == rules.expand_id:
        return (2, True, size + 1) if size < most else (1, True, size)
    return (0, True, size - 1) if size > least else (1, True, size)

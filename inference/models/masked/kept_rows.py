"""Keys and values of reused rows, as each pass of the network needs them.

Where every row sees every row, none can be kept exactly, but they change little while the row's own token stays
(Fast-dLLM, Wu et al., 2025, https://arxiv.org/abs/2505.22618). The keys of a row that moves are rotated by the
distance. Shapes: B sequences, A computed rows, T rows of a sequence, H heads of keys, h their size.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from inference.models.family import common_ends
from inference.models.masked.network import Qwen2, turned

_NEIGHBOURS = 8
"""Recompute this many rows beside the place where two sequences begin to differ; they depend on it most."""


@dataclass
class KeptRows:
    """Keys and values of B sequences by layer, (B, H, T, h), for passes that compute the rows `computed` (B, A).

    Also a `KeyValues` of the network. `before`: rows of one sequence that precede all of these.
    """

    keys: list[Tensor]
    values: list[Tensor]
    before: "KeptRows | None" = None
    computed: Tensor = field(default_factory=lambda: torch.zeros((1, 0), dtype=torch.long))

    def update(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        at = self.computed[:, None, :, None].expand_as(keys)
        self.keys[layer].scatter_(2, at, keys)
        self.values[layer].scatter_(2, at, values)
        if self.before is None:
            return self.keys[layer], self.values[layer]
        batch = (keys.shape[0], -1, -1, -1)
        earlier = self.before.keys[layer].expand(batch), self.before.values[layer].expand(batch)
        return torch.cat([earlier[0], self.keys[layer]], 2), torch.cat([earlier[1], self.values[layer]], 2)

    def picked(self, network: Qwen2, rows: Tensor, moved: Tensor) -> "KeptRows":
        """The `rows` (B, T') of one sequence as those of B sequences, each `moved` (B, T') by this many positions."""
        turn = network.turn(moved)
        batch, count = rows.shape
        flat = rows.flatten()

        def taken(known: Tensor) -> Tensor:
            return known[0][:, flat].view(-1, batch, count, known.shape[-1]).transpose(0, 1).contiguous()

        return KeptRows([turned(taken(one), turn) for one in self.keys], [taken(one) for one in self.values])

    def part(self, first: int, end: int) -> "KeptRows":
        """Some rows of each sequence. They share memory with these."""
        return KeptRows([one[:, :, first:end] for one in self.keys], [one[:, :, first:end] for one in self.values])


@dataclass
class Known:
    """A sequence of tokens and its computed keys and values, the rows of the prefix first."""

    ids: list[int]
    rows: KeptRows
    uses: int = 0
    """How many sequences in a row were derived from it since all its rows were computed."""

    def shared(self, prefix_ids: Sequence[int]) -> int:
        """How many rows of a prefix may take its keys and values."""
        return sum(row >= 0 for row in sources(self.ids[: len(prefix_ids)], prefix_ids))

    @property
    def count_bytes(self) -> int:
        """How much memory it takes."""
        return sum(one.nbytes for one in (*self.rows.keys, *self.rows.values))


def sources(known: Sequence[int], wanted: Sequence[int], *, neighbours: int = _NEIGHBOURS) -> list[int]:
    """For each token of `wanted` the row of `known` whose keys and values it may take; -1: none."""
    lead, tail = common_ends(known, wanted)
    if lead == len(wanted) == len(known):
        return list(range(lead))
    first = max(0, lead - neighbours)
    behind = max(0, tail - neighbours)
    moved = len(known) - len(wanted)
    middle = len(wanted) - first - behind
    return [*range(first), *[-1] * middle, *(row + moved for row in range(len(wanted) - behind, len(wanted)))]


def empty_rows(network: Qwen2, batch: int, count: int) -> KeptRows:
    """Rows that must all be computed."""
    config = network.config
    shape = (batch, config.key_heads, count, config.head_size)
    layers = range(config.num_hidden_layers)
    made = [torch.zeros(shape, dtype=network.dtype, device=network.device) for _ in (*layers, *layers)]
    return KeptRows(made[: len(layers)], made[len(layers) :])

"""The contents of a canvas, before any tensor: the rows of its holes, and what is pinned after each.

A plan does not fix how many rows a hole gets; `compose` does, once per candidate length. This module knows token ids
and row numbers, not text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

OPEN_ID = -1
"""Marks a row for the model to fill."""

HoleRows = tuple[int, int, int]
"""The rows `[first, open_first, end)` of one hole on a canvas; those before `open_first` are given."""


@dataclass(frozen=True)
class CanvasHole:
    """One hole: given rows that begin its fill (`forced_ids`), then `min_rows` to `max_rows` open rows.

    The first open row becomes one of `allowed_ids`, if stated. The first `num_healed_bytes` of its tokens are in the
    document already (token healing moved them here), so they are not part of the fill.
    """

    max_rows: int
    min_rows: int = 1
    forced_ids: tuple[int, ...] = ()
    allowed_ids: tuple[int, ...] | None = None
    num_healed_bytes: int = 0
    single_line: bool = False
    existing_ids: tuple[int, ...] = ()
    """The current tokens of the open rows, if the hole is reworked rather than filled."""
    strength: float = 1.0
    """The share of the existing tokens to replace by noise."""
    num_forced_bytes: int = 0
    """How many of the first bytes of the hole's tokens are given: skipped or typed ones."""

    def may_begin_with(self, token: int) -> bool:
        """Whether the first open row may become this token, given its required start. Slow on the first call."""
        return self.allowed_ids is None or token in self._allowed

    @cached_property
    def _allowed(self) -> frozenset[int]:
        return frozenset(self.allowed_ids or ())


@dataclass(frozen=True)
class ComposedCanvas:
    """One composed canvas: ids with OPEN at hole rows, and the rows of each hole."""

    ids: tuple[int, ...]
    spans: tuple[HoleRows, ...]

    def with_suffix_cut(self, suffix: int) -> "ComposedCanvas":
        """The same canvas with at most this many tokens after its last hole."""
        return ComposedCanvas(self.ids[: self.spans[-1][2] + suffix], self.spans)


@dataclass(frozen=True)
class CanvasPlan:
    """One canvas to denoise: its prefix, its holes, and the tokens `pinned_after` each of them.

    It has at most `width` rows: pinned tokens beyond that are cut. `hole_range` numbers its holes in the request.
    """

    prefix_ids: tuple[int, ...]
    holes: tuple[CanvasHole, ...]
    pinned_after: tuple[tuple[int, ...], ...]
    width: int
    hole_range: range

    @property
    def suffix(self) -> tuple[int, ...]:
        return self.pinned_after[-1]

    def compose(self, lengths: Sequence[int]) -> ComposedCanvas:
        """A canvas whose holes have these numbers of open rows, which must fit."""
        ids: list[int] = []
        spans: list[HoleRows] = []
        for hole, pinned, length in zip(self.holes, self.pinned_after, lengths, strict=True):
            first = len(ids)
            ids += [*hole.forced_ids, *[OPEN_ID] * length]
            spans.append((first, first + len(hole.forced_ids), len(ids)))
            ids += pinned
        return ComposedCanvas(tuple(ids[: self.width]), tuple(spans))

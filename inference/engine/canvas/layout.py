"""The contents of a canvas, before any tensor: pinned tokens and the slots of holes, in order.

A layout does not fix how many slots a hole gets; `compose` does, once per candidate length. It knows token ids and row
numbers, not text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

OPEN = -1
"""Marks a row for the model to fill."""

HoleRows = tuple[int, int, int]
"""The rows `[first, open_first, end)` of one hole on a canvas; those before `open_first` are given."""


@dataclass(frozen=True)
class Pinned:
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Slots:
    """One hole: given rows that begin its fill (`forced`), then `minimum` to `maximum` open rows.

    `allowed` limits the first open row to these tokens. The first `skip` bytes of the hole's tokens are already in the
    document (token healing moved them here), so they are not part of the fill.
    """

    maximum: int
    minimum: int = 1
    forced: tuple[int, ...] = ()
    allowed: tuple[int, ...] | None = None
    skip: int = 0
    single_line: bool = False
    existing: tuple[int, ...] = ()
    """The current tokens of the open rows, if the hole is reworked rather than filled."""
    strength: float = 1.0
    """The share of the existing tokens to replace by noise."""
    given: int = 0
    """How many of the first bytes of the hole's tokens are given: skipped or typed ones."""

    def may_begin(self, token: int) -> bool:
        """Whether the first open row may become this token, given its required start. Slow on the first call."""
        return self.allowed is None or token in self._allowed

    @cached_property
    def _allowed(self) -> frozenset[int]:
        return frozenset(self.allowed or ())


@dataclass(frozen=True)
class Row:
    """One composed canvas: ids with OPEN at hole rows, and the rows of each hole."""

    ids: tuple[int, ...]
    spans: tuple[HoleRows, ...]

    def cut(self, suffix: int) -> "Row":
        """The same canvas with at most this many tokens behind its last hole."""
        return Row(self.ids[: self.spans[-1][2] + suffix], self.spans)


@dataclass(frozen=True)
class Layout:
    """The parts of a canvas of at most `width` rows; cuts pinned tokens at its end that do not fit."""

    parts: tuple[Pinned | Slots, ...]
    width: int

    @property
    def holes(self) -> tuple[Slots, ...]:
        return tuple(part for part in self.parts if isinstance(part, Slots))

    @property
    def suffix(self) -> tuple[int, ...]:
        last = self.parts[-1]
        return last.ids if isinstance(last, Pinned) else ()

    def compose(self, lengths: Sequence[int]) -> Row:
        """A canvas whose holes have these numbers of open rows. Raises ValueError if that does not fit."""
        ids: list[int] = []
        spans: list[HoleRows] = []
        remaining = iter(lengths)
        for part in self.parts:
            if isinstance(part, Pinned):
                ids += part.ids
                continue
            first = len(ids)
            ids += part.forced
            ids += [OPEN] * next(remaining)
            spans.append((first, first + len(part.forced), len(ids)))
        if spans and spans[-1][2] > self.width:
            raise ValueError(f"holes need {spans[-1][2]} rows, the canvas has {self.width}")
        return Row(tuple(ids[: self.width]), tuple(spans))

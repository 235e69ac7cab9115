"""Examples of fill-in-the-middle for a causal model: what stands before a hole, what stands behind it, then its text.

In the order of Qwen2.5-Coder (PSM): `<|fim_prefix|>` prefix `<|fim_suffix|>` suffix `<|fim_middle|>` middle
`<|endoftext|>`. The three are cut at characters and tokenized each by itself, as a server is asked. Some examples are
plain text. Shapes: B examples of L rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from inference.training import holes
from inference.training.batches import BatchShape, Bools, Ints
from inference.training.fim_tokenizer import END, MIDDLE, PAD, PREFIX, SUFFIX
from inference.training.holes import TrainingDocument

_PLAIN_SHARE = 0.1
_NO_SUFFIX_SHARE = 0.1
"""Holes at what looks like the end of a file: people write there, too."""

_CHARACTERS_PER_TOKEN = 8
_LEAST_MIDDLE_TOKENS = 64
"""Room that prefix and suffix leave; a longer middle takes of the suffix, then of the prefix."""


@dataclass(frozen=True)
class FimExamples:
    """Rows from left to right; each is predicted by the one before it."""

    ids: Ints  # (B, L)
    text: Bools  # (B, L): rows that are to be predicted: no padding, nothing of the arrangement
    middle: Bools  # (B, L): of them, those of a middle, its end included


class FimExampleSource:
    """Draws examples from documents, every character equally likely to be near a hole. `draw` depends on its seed."""

    def __init__(
        self,
        documents: Sequence[TrainingDocument],
        tokenizer: Tokenizer,
        shape: BatchShape,
        seed: int,
        longest_characters: int,
    ) -> None:
        self._documents, self._tokenizer, self._seed = documents, tokenizer, seed
        self._count, self._rows, self._prefix = shape.streams, shape.canvas_tokens, shape.prefix_tokens
        self._longest = longest_characters
        self._ends = np.cumsum([len(document.text) for document in documents])

    def draw(self, step: int) -> FimExamples:
        """The examples of a step: the same for the same seed and step."""
        rng = np.random.default_rng((self._seed, step))
        made = [self._example(rng) for _ in range(self._count)]
        ids = np.full((self._count, self._rows), PAD, np.int64)
        middle = np.zeros(ids.shape, bool)
        for number, (row, begin) in enumerate(made):
            ids[number, : len(row)] = row
            middle[number, begin : len(row)] = True
        text = ~np.isin(ids, (PAD, PREFIX, SUFFIX, MIDDLE))
        text[:, 0] = False  # nothing stands before it to predict it
        return FimExamples(ids, text, middle)

    def _example(self, rng: np.random.Generator) -> tuple[list[int], int]:
        """At most L ids, and where the middle begins; drawn again where a text has no place for a hole."""
        while True:
            place = int(rng.integers(0, self._ends[-1]))
            number = int(np.searchsorted(self._ends, place, side="right"))
            document = self._documents[number]
            anchor = place - (int(self._ends[number]) - len(document.text))
            if rng.random() < _PLAIN_SHARE:
                row = self._plain(document.text, anchor)
                return row, len(row)
            hole = holes.choose(document, anchor, rng, self._longest)
            if hole is not None and 0 < hole.cursor < hole.end:
                return self._arranged(document.text, hole.cursor, hole.end, rng)

    def _plain(self, text: str, anchor: int) -> list[int]:
        start = text.rfind("\n", 0, anchor) + 1
        size = self._rows * _CHARACTERS_PER_TOKEN
        ending = [END] if start + size >= len(text) else []
        return [*self._ids(text[start : start + size]), *ending][: self._rows]

    def _arranged(self, text: str, cursor: int, end: int, rng: np.random.Generator) -> tuple[list[int], int]:
        """Prefix and suffix of any length, as in users' files, as far as there is room beside the middle."""
        middle = [*self._ids(text[cursor:end]), END]
        room = self._rows - 3 - max(len(middle), _LEAST_MIDDLE_TOKENS)
        behind = int(rng.integers(0, max(1, self._rows - self._prefix - _LEAST_MIDDLE_TOKENS)))
        suffix = [] if rng.random() < _NO_SUFFIX_SHARE else self._ids(text[end : end + 8 * behind])[: min(behind, room)]
        before = min(int(rng.uniform(0.2, 1.0) * self._prefix), room - len(suffix))
        start = max(0, cursor - _CHARACTERS_PER_TOKEN * max(1, before))
        prefix = self._ids(text[start:cursor])[-before:] if before > 0 else []
        row = [PREFIX, *prefix, SUFFIX, *suffix, MIDDLE]
        return [*row, *middle], len(row)

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def unchanged(drawn: FimExamples, _step: int, _rng: np.random.Generator) -> FimExamples:
    """No noise: a causal model learns from what stands there."""
    return drawn

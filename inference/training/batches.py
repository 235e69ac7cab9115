"""Batches: a causal stream of text, and canvases that begin at several places of it. A function of seed and step.

Canvas k sees the first `splits[k]` tokens of the stream, as the decoder sees the encoded prefix of the hole. Shapes: B
streams of P tokens, K canvases of C rows each; R rows of a stream's canvases carry loss.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding, Tokenizer

from inference.training import holes
from inference.training.composer import Composer, TrainingCanvas
from inference.training.holes import TrainingDocument, TrainingHole
from inference.training.tokenizer import Tokens

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_CHARACTERS_PER_TOKEN = 3.4
_GAP_CHARACTERS = 45
_SMALL_GAP_CHARACTERS = 8
_FULL = 16
_SLACK_SHARE = 0.4
"""The share of canvases with slack in their holes; the others teach content."""

_HOLE_COUNTS = {
    False: {1: 0.15, 2: 0.15, 3: 0.1, 4: 0.1, _FULL: 0.5},
    True: {1: 0.4, 2: 0.2, 3: 0.1, 4: 0.1, _FULL: 0.2},
}
"""The shares of canvases without and with slack by number of holes, as far as they fit; misfits are redrawn, which
slightly lowers the share with slack and the number of holes. Full ones teach most for their time: their holes are close
together. Those for lengths are more like the engine's requests.
"""


Framing = Callable[[TrainingDocument, int, np.random.Generator], tuple[int, ...]]
"""The tokens before the text of a stream that begins at this character of a file."""


def plain(bos: int, _document: TrainingDocument, start: int, _rng: np.random.Generator) -> tuple[int, ...]:
    """A framing: the file alone, with <bos> at its start."""
    return (bos,) if start == 0 else ()


@dataclass(frozen=True)
class Batch:
    """Clean tokens; corruption comes later."""

    stream: Ints  # (B, P)
    stream_lengths: Ints  # (B,)
    text_starts: Ints  # (B,): stream tokens before the first of the text
    canvas: Ints  # (B, K, C)
    hole: Bools  # (B, K, C): rows to be denoised
    lengths: Ints  # (B, K): rows that are no padding
    splits: Ints  # (B, K): stream tokens that canvas k sees
    has_slack: Bools  # (B, K)


@dataclass(frozen=True)
class BatchShape:
    """Sizes of a batch: B, P, K, C."""

    streams: int
    prefix_tokens: int
    canvases: int
    canvas_tokens: int


class Batches:
    """Draws batches from documents, every character equally likely to be near a hole."""

    def __init__(
        self,
        documents: Sequence[TrainingDocument],
        tokenizer: Tokenizer,
        tokens: Tokens,
        shape: BatchShape,
        seed: int,
        framing: Framing | None = None,
    ) -> None:
        self._documents, self._tokenizer, self._shape, self._seed = documents, tokenizer, shape, seed
        self._framing = framing or partial(plain, tokens.bos)
        self._tokens, self._composer = tokens, Composer(tokenizer, tokens, shape.canvas_tokens)
        self._ends = np.cumsum([len(document.text) for document in documents])

    def draw(self, step: int) -> Batch:
        """The batch of a step: the same for the same seed and step."""
        rng = np.random.default_rng((self._seed, step))
        shape, pad = self._shape, self._tokens.pad
        made = [self._example(rng) for _ in range(shape.streams)]
        return Batch(
            stream=np.array([_padded(stream.ids, shape.prefix_tokens, pad) for stream, _, _ in made]),
            stream_lengths=np.array([len(stream.ids) for stream, _, _ in made]),
            text_starts=np.array([stream.offset for stream, _, _ in made]),
            canvas=np.array([[_padded(one.ids, shape.canvas_tokens, pad) for one in ones] for _, ones, _ in made]),
            hole=np.array([[_padded(one.hole, shape.canvas_tokens, 0) for one in ones] for _, ones, _ in made], bool),
            lengths=np.array([[len(one.ids) for one in ones] for _, ones, _ in made]),
            splits=np.array([splits for _, _, splits in made]),
            has_slack=np.array([[one.has_slack for one in ones] for _, ones, _ in made]),
        )

    def _example(self, rng: np.random.Generator) -> tuple["TextStream", list[TrainingCanvas], list[int]]:
        """One stream, its canvases and where they split it; redrawn if the text has no place for a hole."""
        while True:
            place = int(rng.integers(0, self._ends[-1]))
            number = int(np.searchsorted(self._ends, place, side="right"))
            document = self._documents[number]
            anchor = place - (int(self._ends[number]) - len(document.text))
            stream = self._stream(document, anchor, rng)
            found = [self._canvas(document, stream, rng) for _ in range(self._shape.canvases)]
            made = [item for item in found if item is not None]
            if len(made) == self._shape.canvases:
                return stream, [canvas for canvas, _ in made], [split for _, split in made]

    def _stream(self, document: TrainingDocument, anchor: int, rng: np.random.Generator) -> "TextStream":
        """Up to P tokens of text around the anchor, from the file's start or the middle of it."""
        size, text = self._shape.prefix_tokens, document.text
        start = anchor - int(rng.uniform(0.2, 1.0) * size * _CHARACTERS_PER_TOKEN)
        start = max(0, text.rfind("\n", 0, max(0, start)))
        if start > 0 and rng.random() < 0.5:
            start += 1  # an excerpt begins with a line, the engine's window with the line break before it
        encoding = self._tokenizer.encode(text[start : start + 8 * size], add_special_tokens=False)
        skip = int(rng.integers(0, 16)) if start > 0 and rng.random() < 0.5 else 0  # the engine cuts anywhere
        ends = start + 8 * size >= len(text)
        before = self._framing(document, start, rng)
        return TextStream.of(encoding, start, skip, size, before, self._tokens.ending if ends else ())

    def _canvas(
        self, document: TrainingDocument, stream: "TextStream", rng: np.random.Generator
    ) -> tuple[TrainingCanvas, int] | None:
        """A canvas whose first hole is somewhere in or right behind the stream, and its split."""
        low, high = stream.starts[0], stream.starts[-1]
        anchor = int(rng.integers(low, high + 1))
        has_slack = bool(rng.random() < _SLACK_SHARE)
        chosen = self._holes(document, anchor, _HOLE_COUNTS[has_slack], rng)
        if not chosen:
            return None
        split = int(np.searchsorted(stream.starts, chosen[0].cursor, side="left")) - 1
        if split < 0 or chosen[0].cursor > stream.end:
            return None
        canvas = self._composer.compose(document, stream.starts[split], chosen, rng, has_slack=has_slack)
        return (canvas, split + stream.offset) if any(canvas.hole) and split + stream.offset > 0 else None

    def _holes(
        self, document: TrainingDocument, anchor: int, counts: Mapping[int, float], rng: np.random.Generator
    ) -> list[TrainingHole]:
        """Holes in order, with text between them; `counts` are the shares by number."""
        found: list[TrainingHole] = []
        count = int(rng.choice(list(counts), p=list(counts.values())))
        gap = _SMALL_GAP_CHARACTERS if count == _FULL else _GAP_CHARACTERS
        for _ in range(count):
            hole = holes.choose(document, anchor, rng)
            if hole is None:
                break
            if hole.cursor < hole.end:
                found.append(hole)
            anchor = hole.end + 1 + int(rng.exponential(gap))
        return found


@dataclass(frozen=True)
class TextStream:
    """Tokens and the start of each one's text (characters of the file); `offset` special tokens precede them."""

    ids: list[int]
    starts: list[int]
    end: int
    offset: int

    @classmethod
    def of(
        cls, encoding: Encoding, start: int, skip: int, size: int, before: Sequence[int], after: Sequence[int]
    ) -> "TextStream":
        """At most `size` tokens: `before`, the text's but the first `skip`, and, if all fit, `after`."""
        skip = min(skip, max(0, len(encoding.ids) - 1))
        last = min(len(encoding.ids), skip + size - len(before))
        ids = [*before, *encoding.ids[skip:last]]
        if last == len(encoding.ids):
            ids = [*ids, *after][:size]
        starts = [start + first for first, _ in encoding.offsets[skip:last]]
        return cls(ids, starts, start + encoding.offsets[last - 1][1], len(before))


def _padded(values: Sequence[int], size: int, padding: int) -> list[int]:
    return [*values, *[padding] * (size - len(values))]

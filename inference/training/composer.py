"""One training canvas in tokens: holes with their slots, and everything pinned between and after them.

It places tokens where the engine will: every hole starts one token early (token healing), and each pinned piece is
tokenized separately, because the hole's content is unknown at inference.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from tokenizers import Encoding, Tokenizer

from inference.messages import HoleKind
from inference.models.properties import HoleSlots
from inference.training.holes import TrainingDocument, TrainingHole
from inference.training.tokenizer import Tokens

MOST_SLOTS = 64
SLOTS = HoleSlots(block=MOST_SLOTS, body=MOST_SLOTS)
"""The slots a checkpoint with a slack token learns for each kind, and states in its `infill.json`."""

DEFAULT_SHARE = 0.75
"""The share of holes with slack that have the slots of their kind; the others have any number. Neither depends on the
length, so that P(slack) is an honest estimate of it; it may depend on the kind.
"""

_FREE_ROWS = 12
"""Rows reserved for the text behind the last hole."""

_CHARACTERS_PER_TOKEN = 8


@dataclass
class TrainingCanvas:
    """Rows of one canvas. `hole` marks the rows to denoise, `slack` the slack rows among them."""

    ids: list[int] = field(default_factory=list)
    hole: list[bool] = field(default_factory=list)
    has_slack: bool = False

    def pin(self, ids: Sequence[int], width: int) -> None:
        """Appends pinned tokens, as many as fit."""
        room = max(0, width - len(self.ids))
        self.ids += ids[:room]
        self.hole += [False] * len(ids[:room])

    def open(self, ids: Sequence[int], slack: Sequence[int] = ()) -> None:
        """Appends a hole: its content, then its slack."""
        self.ids += [*ids, *slack]
        self.hole += [True] * (len(ids) + len(slack))


@dataclass(frozen=True)
class Composer:
    """Makes canvases of at most `width` rows."""

    tokenizer: Tokenizer
    tokens: Tokens
    width: int

    def compose(
        self,
        document: TrainingDocument,
        start: int,
        holes: Sequence[TrainingHole],
        rng: np.random.Generator,
        *,
        has_slack: bool,
    ) -> TrainingCanvas:
        """The canvas of some holes in order; `start` is the start of the token healed into the first one.

        A canvas is either for sizing (every hole has slack) or for filling (every hole has its exact length): the
        engine first settles the lengths on the one and then denoises the other.
        """
        canvas = TrainingCanvas(has_slack=has_slack)
        end = start
        for cursor, stop, kind in holes:
            if canvas.ids:
                between = self._encode(document.text[end:cursor])
                start = end + between.offsets[-1][0]
                pinned = between.ids[:-1]
            else:
                pinned = []
            room = self.width - _FREE_ROWS - len(canvas.ids) - len(pinned)
            content, taken = self._content(document.text[start:stop], room)
            if not canvas.has_slack:
                slots = len(content)
            elif start + taken == stop:  # of a hole that is cut, nobody knows how long it is
                slots = self._slots(kind, len(content), room, rng)
            else:
                slots = 0
            if slots == 0 and not canvas.ids:
                break  # nothing else can stand first: the prefix ends here
            if slots == 0:
                continue
            canvas.pin(pinned, self.width)
            canvas.open(content, [self.tokens.slack] * (slots - len(content)))
            end = start + taken
        self._finish(canvas, document.text, end, rng)
        return canvas

    def _content(self, text: str, room: int) -> tuple[list[int], int]:
        """A hole's tokens, cut if there are too many, and the number of characters they represent."""
        encoding = self._encode(text)
        count = min(len(encoding.ids), MOST_SLOTS, max(0, room))
        return encoding.ids[:count], encoding.offsets[count - 1][1] if count else 0

    def _slots(self, kind: HoleKind, length: int, room: int, rng: np.random.Generator) -> int:
        """The slots of a hole with slack, drawn independently of its length; 0 if it does not fit into them."""
        usual = rng.random() < DEFAULT_SHARE
        size = min(room, SLOTS.of(kind, self.width) if usual else int(rng.integers(4, MOST_SLOTS + 1)))
        return size if 0 < length <= size else 0

    def _finish(self, canvas: TrainingCanvas, text: str, end: int, rng: np.random.Generator) -> None:
        """Pins the text behind: the rest of the file as far as it fits, or an early end of file."""
        rest = text[end : end + _CHARACTERS_PER_TOKEN * self.width]
        if rng.random() < 0.1:  # people write at the end of files that are not finished
            rest, at_end = "\n" if rng.random() < 0.7 else "", True
        else:
            at_end = end + len(rest) >= len(text)
        canvas.pin([*self._encode(rest).ids, *(self.tokens.ending if at_end else ())], self.width)

    def _encode(self, text: str) -> Encoding:
        return self.tokenizer.encode(text, add_special_tokens=False)

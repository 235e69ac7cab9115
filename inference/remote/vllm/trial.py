"""One canvas of certain lengths on its way from noise to text, as far as the client knows it."""

import math
import random
from collections.abc import Mapping, Sequence

from inference.engine.canvas.fills import Written
from inference.engine.canvas.layout import OPEN, Row, Slots
from inference.models.family import NoiseKind, Properties
from inference.remote.vllm.rules import TextRules, open_rows


class Noise:
    """What stands in a row that is not known yet. Seeded, since vLLM takes no seed: the first step is repeatable."""

    def __init__(self, properties: Properties, vocabulary_size: int, seed: int | None) -> None:
        self._mask = properties.mask_token_id if properties.corruption == NoiseKind.MASK else None
        self._size = vocabulary_size
        self.random = random.Random(seed)  # noqa: S311 - noise, not a secret

    def token(self) -> int:
        """One row's noise."""
        return self.random.randrange(self._size) if self._mask is None else self._mask


class Trial:
    """A canvas with the rows that are written so far. Pinned rows are our own tokens, whatever a server answers."""

    def __init__(self, row: Row, holes: Sequence[Slots], rules: TextRules, noise: Noise) -> None:
        self.row, self.holes = row, holes
        self.open = open_rows(row, holes)
        self.steps = 0
        self._rules, self._noise = rules, noise
        self._wrong: set[int] = set()
        self._ids = self._begun()
        self._guesses = [noise.token() if id_ == OPEN else id_ for id_ in self._ids]
        self._sure = [1.0] * len(row.ids)
        for number in self.left:
            self._sure[number] = 0.0

    def _begun(self) -> list[int]:
        """The rows as they stand at first: where text is reworked, those of its tokens that are noised are open."""
        ids = list(self.row.ids)
        for (_, first, end), hole in zip(self.row.spans, self.holes, strict=True):
            for number, id_ in zip(range(first, end), hole.existing, strict=False):
                if self._noise.random.random() >= hole.strength:
                    ids[number] = id_
        return ids

    @property
    def left(self) -> list[int]:
        """The rows that are not written yet."""
        return [number for number, id_ in enumerate(self._ids) if id_ == OPEN]

    @property
    def seed(self) -> list[int]:
        """The canvas to send, with noise where nothing is written."""
        return [self._noise.token() if id_ == OPEN else id_ for id_ in self._ids]

    @property
    def pinned(self) -> list[int]:
        """The rows that are to stay as they are sent."""
        return [number for number, id_ in enumerate(self._ids) if id_ != OPEN]

    @property
    def written(self) -> Written:
        """The canvas with the best guess in each row."""
        return Written(list(self._guesses), list(self._sure), self.row.spans, self.steps)

    def learn(self, ids: Sequence[int], known: Sequence[Mapping[int, float]], *, heat: float = 0.0) -> None:
        """Takes the likeliest token that may stand there as the guess for each row that is not written.

        `heat` above 0 draws one instead, at that temperature. Where none of those named may stand there, nobody is sure
        of the row: it gets the server's own token, or the given one where the hole begins; `is_text` says if it may.
        """
        for number in self.left:
            hole, is_start = self.open[number]
            choices = self._rules.choices(known[number], hole, is_start=is_start)
            if choices:
                token, value = choices[0] if heat <= 0 else self._drawn(choices, heat)
                self._guesses[number], self._sure[number] = token, min(1.0, math.exp(value))
            else:
                self._guesses[number], self._sure[number] = self._given_start(number, ids[number]), 0.0
            self._check(number)

    @property
    def is_text(self) -> bool:
        """Whether each row that is read so far has a token that may stand there; else the canvas is no answer."""
        return not self._wrong

    def write(self, numbers: Sequence[int]) -> None:
        """Writes the guesses of these rows; they are pinned from now on."""
        for number in numbers:
            self._ids[number] = self._guesses[number]

    def surest(self) -> list[int]:
        """The rows that are not written, those first of which the model is surest."""
        return sorted(self.left, key=lambda number: (-self._sure[number], number))

    def confidence(self, number: int) -> float:
        """How sure the model is of the guess in a row, 0 to 1."""
        return self._sure[number]

    def _drawn(self, choices: Sequence[tuple[int, float]], heat: float) -> tuple[int, float]:
        weights = [math.exp((value - choices[0][1]) / heat) for _, value in choices]
        return self._noise.random.choices(choices, weights)[0]

    def _check(self, number: int) -> None:
        hole, is_start = self.open[number]
        may = self._rules.may_stand(self._guesses[number], hole, is_start=is_start)
        (self._wrong.discard if may else self._wrong.add)(number)

    def _given_start(self, number: int, token: int) -> int:
        """The token of the first row of a hole that begins as was given, where no likely one does: the given one."""
        hole, is_start = self.open[number]
        return hole.allowed[0] if is_start and hole.allowed else token

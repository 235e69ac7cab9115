"""One canvas of fixed lengths on its way from noise to text, and the requests that make a server denoise it."""

import math
import random
from collections.abc import Callable, Mapping, Sequence

from inference.engine.canvas.fills import Written
from inference.engine.canvas.layout import OPEN, Row, Slots
from inference.engine.canvas.vocabulary import Vocabulary
from inference.models.properties import NoiseKind, Properties
from inference.remote.vllm.reading import CanvasReader

UNMASKING_STEPS = 4
"""The most requests for one canvas that is unmasked from here. Of 100 tuning lines at their true length 2 gave edit
similarity 0.440, 4 gave 0.474, 8 gave 0.469 and 16 gave 0.465.
"""
SURE = 0.9
"""The probability above which to write further rows beyond those that a step must write."""
LEAST_HEAT = 0.5
"""The least temperature of a canvas that must differ from one of the same lengths."""


class TextRules:
    """The tokens allowed in a hole's row: text only, no line break in a hole of one line, a given start.

    vLLM cannot enforce that: it refuses `logit_bias`, and `diffusion_constrained` holds for a whole canvas. Its list of
    a row's likeliest tokens is enough to choose among them.
    """

    def __init__(self, vocabulary: Vocabulary, properties: Properties) -> None:
        self._size, self._first = len(vocabulary), properties.first_text_token_id
        self._special = frozenset(vocabulary.special_ids)
        self._line_breaks = frozenset(vocabulary.line_break_ids)

    def is_text(self, token: int) -> bool:
        """Whether a token may appear in a fill of several lines."""
        return self._first <= token < self._size and token not in self._special

    def may_stand(self, token: int, hole: Slots, *, is_start: bool) -> bool:
        """Whether a token may appear in a row of this hole; `is_start`: in its first open row."""
        if is_start and hole.allowed is not None:
            return hole.may_begin(token)
        return self.is_text(token) and not (hole.single_line and token in self._line_breaks)

    def choices(self, known: Mapping[int, float], hole: Slots, *, is_start: bool) -> list[tuple[int, float]]:
        """The tokens allowed there with their log-probabilities, likeliest first."""
        some = [(token, value) for token, value in known.items() if self.may_stand(token, hole, is_start=is_start)]
        return sorted(some, key=lambda each: (-each[1], each[0]))


class SeededNoise:
    """The content of unknown rows. Seeded, because vLLM takes no seed: the first step is repeatable."""

    def __init__(self, properties: Properties, vocabulary_size: int, seed: int | None) -> None:
        self._mask = properties.mask_token_id if properties.corruption == NoiseKind.MASK else None
        self._size = vocabulary_size
        self.random = random.Random(seed)  # noqa: S311 - noise, not a secret

    def token(self) -> int:
        """One row's noise."""
        return self.random.randrange(self._size) if self._mask is None else self._mask


class Trial:
    """A canvas with the rows written so far. Pinned rows are our own tokens, whatever a server answers."""

    def __init__(self, row: Row, holes: Sequence[Slots], rules: TextRules, noise: SeededNoise) -> None:
        self.row, self.holes = row, holes
        self._open = {
            number: (hole, number == first)
            for (_, first, end), hole in zip(row.spans, holes, strict=True)
            for number in range(first, end)
        }
        """For each open row its hole, and whether it is the first one after the hole's given start."""
        self.steps = 0
        self._rules, self._noise = rules, noise
        self._wrong: set[int] = set()
        self._ids = self._begun()
        self._guesses = [noise.token() if id_ == OPEN else id_ for id_ in self._ids]
        self._sure = [1.0] * len(row.ids)
        for number in self.left:
            self._sure[number] = 0.0

    def _begun(self) -> list[int]:
        """The initial rows: in reworked text, the noised tokens are open."""
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
        """The canvas to send, with noise in unwritten rows."""
        return [self._noise.token() if id_ == OPEN else id_ for id_ in self._ids]

    @property
    def pinned(self) -> list[int]:
        """The rows that must not change."""
        return [number for number, id_ in enumerate(self._ids) if id_ != OPEN]

    @property
    def written(self) -> Written:
        """The canvas with the best guess in each row."""
        return Written(list(self._guesses), list(self._sure), self.row.spans, self.steps)

    def learn(self, ids: Sequence[int], known: Sequence[Mapping[int, float]], *, heat: float = 0.0) -> None:
        """Guesses the likeliest allowed token for each unwritten row.

        With `heat` above 0, draws one at that temperature instead. If none of the named tokens is allowed, the row is
        unsure: it gets the server's own token, or the given one at the start of the hole; `is_text` tells if it may.
        """
        for number in self.left:
            hole, is_start = self._open[number]
            choices = self._rules.choices(known[number], hole, is_start=is_start)
            if choices:
                token, value = choices[0] if heat <= 0 else self._drawn(choices, heat)
                self._guesses[number], self._sure[number] = token, min(1.0, math.exp(value))
            else:
                self._guesses[number], self._sure[number] = self._given_start(number, ids[number]), 0.0
            self._check(number)

    @property
    def is_text(self) -> bool:
        """Whether each row read so far has an allowed token; otherwise the canvas is no answer."""
        return not self._wrong

    def write(self, numbers: Sequence[int]) -> None:
        """Writes the guesses of these rows; they are pinned from now on."""
        for number in numbers:
            self._ids[number] = self._guesses[number]

    def surest(self) -> list[tuple[int, float]]:
        """The unwritten rows, surest first, and the model's confidence in the guess for each, 0 to 1."""
        return sorted(((number, self._sure[number]) for number in self.left), key=lambda each: (-each[1], each[0]))

    def _drawn(self, choices: Sequence[tuple[int, float]], heat: float) -> tuple[int, float]:
        weights = [math.exp((value - choices[0][1]) / heat) for _, value in choices]
        return self._noise.random.choices(choices, weights)[0]

    def _check(self, number: int) -> None:
        hole, is_start = self._open[number]
        may = self._rules.may_stand(self._guesses[number], hole, is_start=is_start)
        (self._wrong.discard if may else self._wrong.add)(number)

    def _given_start(self, number: int, token: int) -> int:
        """The token of the first row of a hole with a given start that no likely token matches: the given one."""
        hole, is_start = self._open[number]
        return hole.allowed[0] if is_start and hole.allowed else token


def steps_of(properties: Properties, asked: int | None) -> int:
    """The most steps of a canvas. A server takes fewer if its own maximum is lower."""
    steps = asked or properties.sampler.max_steps
    return min(steps, UNMASKING_STEPS) if properties.corruption == NoiseKind.MASK else steps


async def denoise(
    reader: CanvasReader,
    trial: Trial,
    properties: Properties,
    steps: int,
    on_step: Callable[[], None],
    heat: float = 0.0,
) -> None:
    """Fills a canvas in at most this many steps. Raises ServerError, and TimeoutError at the deadline.

    At any time `trial.written` is the best answer so far. The canvas of a model of uniform noise takes all steps in one
    request. One that knows only a mask token is unmasked from here: each request reads the canvas once, the likeliest
    rows are written, and the others are masked again.
    """
    if properties.corruption == NoiseKind.MASK:
        await _unmask(reader, trial, steps, on_step, heat)
        return
    if trial.left:
        answer = await reader.read(trial.seed, trial.pinned, steps=steps)
        trial.steps += steps
        trial.learn(answer.ids, answer.log_probabilities)
        trial.write(trial.left)
        on_step()


async def _unmask(reader: CanvasReader, trial: Trial, steps: int, on_step: Callable[[], None], heat: float) -> None:
    """Writes enough rows at each step for the last step to write the last row."""
    for step in range(steps):
        if not trial.left:
            return
        answer = await reader.read(trial.seed, trial.pinned)
        trial.steps += 1
        trial.learn(answer.ids, answer.log_probabilities, heat=heat)
        order = trial.surest()
        least = math.ceil(len(order) / (steps - step))
        trial.write([number for place, (number, sure) in enumerate(order) if place < least or sure >= SURE])
        on_step()

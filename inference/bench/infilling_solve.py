"""Fills the holes of tasks with one loaded model: on a canvas, or from left to right with the same weights."""

import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass

import msgspec
import torch

from inference.bench.infilling_tasks import InfillingTask
from inference.engine import Engine, RequestError
from inference.engine.canvas.batch import CanvasBatch
from inference.engine.canvas.plan import Plan, Planner
from inference.messages import Candidate, Done, Hole, HoleKind, InfillRequest, Text
from inference.models.diffusion_gemma import left_to_right
from inference.models.diffusion_gemma.adapter import DiffusionGemma

AUTO, ORACLE = "auto", "oracle"
_ROOM = 2
"""From left to right a fill may have this many times a hole's rows: there, a limit only stops endless fills."""


class NotLeftToRightError(RequestError):
    """The model cannot write from left to right."""


@dataclass(frozen=True)
class SolveOptions:
    """How to fill. `length` is AUTO, ORACLE or a number of tokens; `steps` None takes the checkpoint's own number.

    `continuations` False leaves out the candidates that the encoder writes, so that all come from canvases; `copying`
    False leaves out the file's n-grams. `quick`: as for an automatic suggestion.
    """

    length: str | int = AUTO
    left_to_right: bool = False
    steps: int | None = None
    seed: int = 0
    continuations: bool = True
    quick: bool = False
    copying: bool = True


@dataclass(frozen=True)
class MeasuredFill:
    """A fill and its cost. `true_tokens` is the length of the canonical solution in tokens.

    `steps` are those of the chosen canvas, `passes` all of the decoder's for this request, or one a token.
    """

    text: str
    steps: int
    passes: int
    tokens: int
    true_tokens: int
    ms: float


class Solver:
    """Fills tasks, one at a time, with one loaded model."""

    def __init__(self, engine: Engine, options: SolveOptions) -> None:
        self._engine = _restricted(engine, options)
        self._options = options

    def using(self, options: SolveOptions) -> "Solver":
        """A solver with the same model and other options."""
        return Solver(self._engine, options)

    @property
    def copies(self) -> bool:
        """Whether to mix likelihoods with the file's n-grams."""
        return self._engine.loaded.properties.copying

    @property
    def continues(self) -> bool:
        """Whether the encoder also writes candidates."""
        loaded = self._engine.loaded
        return loaded.traits.continuable_tokens > 0 and loaded.properties.continuations > 0

    def fill(self, task: InfillingTask) -> MeasuredFill:
        """Fills one task's hole. Raises RequestError if the hole does not fit on a canvas of this checkpoint, or if the
        model cannot write from left to right as requested.
        """
        if self._options.left_to_right and not isinstance(self._engine.loaded.family, DiffusionGemma):
            raise NotLeftToRightError(
                f"{self._engine.loaded.family.name} was not trained to write from left to right; use --mode canvas"
            )
        plan = self._plan(_request(task, Hole(_kind(task), single_line=task.single_line)))
        true = self._true_tokens(task, plan)
        began = time.perf_counter()
        filled = (self._one_by_one if self._options.left_to_right else self._on_canvas)(task, plan, true)
        return MeasuredFill(*filled, true, (time.perf_counter() - began) * 1000)

    def _plan(self, request: InfillRequest) -> Plan:
        planner = Planner(self._engine.loaded.vocabulary, self._engine.loaded.properties, request)
        return planner.plan(planner.group_from(0), [])

    def _true_tokens(self, task: InfillingTask, plan: Plan) -> int:
        """The number of open rows for the canonical solution, including the text that healing moved into the hole."""
        slots, parts = plan.layout.holes[0], task.parts
        before = parts.before.encode()
        healed = before[len(before) - slots.skip :].decode()
        return max(1, len(self._engine.loaded.vocabulary.encode(healed + parts.solution)) - len(slots.forced))

    def _tokens(self, true: int) -> int:
        """The hole's size under the options; 0 lets the engine choose."""
        length = self._options.length
        return length if isinstance(length, int) else true if length == ORACLE else 0

    def _on_canvas(self, task: InfillingTask, _plan: Plan, true: int) -> tuple[str, int, int, int]:
        tokens = self._tokens(true)
        hole = Hole(_kind(task), max(1, tokens), tokens, single_line=task.single_line)
        request = _request(task, hole, self._options)
        events = [event for event in self._engine.infill(request) if isinstance(event, Candidate | Done)]
        found, done = events[0], events[-1]
        assert isinstance(done, Done)
        if isinstance(found, Done):
            return "", 0, done.stats.steps, 0
        return found.texts[0], found.steps, done.stats.steps, found.tokens

    def _one_by_one(self, task: InfillingTask, plan: Plan, true: int) -> tuple[str, int, int, int]:
        """Writes until the line or block ends, the tokens are used up, or the rest of the hole's line appears.

        A model that sees no suffix could not know that last one; it improves left to right on the whole.
        """
        vocabulary, skip = self._engine.loaded.vocabulary, plan.layout.holes[0].skip
        indent = _indent(task.parts.before, task.parts.solution)
        ids = list(plan.layout.holes[0].forced)
        properties = self._engine.loaded.properties
        count = self._tokens(true) or _ROOM * properties.slots.of(_kind(task), properties.canvas_tokens)
        text, rest = "", task.parts.after.partition("\n")[0].rstrip()
        with closing(self._ids(plan, count)) as following:
            for id_ in following:
                ids.append(id_)
                text = vocabulary.bytes_of(ids)[skip:].decode("utf-8", errors="replace")
                end = text.find("\n") if task.single_line else _block_end(text, indent)
                if rest and rest in text[: end if end >= 0 else None]:
                    end = text.index(rest)
                if end >= 0:
                    text = text[:end]
                    break
        return text, len(ids), len(ids), len(ids)

    @torch.inference_mode()
    def _ids(self, plan: Plan, count: int) -> Generator[int]:
        """The likeliest tokens; the first must match the text that healing took off the prefix, as on a canvas."""
        model, slots = self._engine.loaded, plan.layout.holes[0]
        assert isinstance(model.family, DiffusionGemma), "only this family writes from left to right here"
        canvas = CanvasBatch.of([plan.layout.compose([slots.maximum])], model.family.device)
        constraint = model.constraints.of(canvas, plan.layout.holes)
        any_ = constraint.biases[0]
        first = any_ if slots.allowed is None else constraint.biases[int(constraint.of_row[0])]
        start = [*plan.prefix_ids, *slots.forced] or [model.vocabulary.id_of("<bos>") or 0]
        with closing(left_to_right.tokens(model.family.prefixes, start, 1, first)) as one:
            start.append(next(one))
        yield start[-1]
        yield from left_to_right.tokens(model.family.prefixes, start, count - 1, any_)


def _restricted(engine: Engine, options: SolveOptions) -> Engine:
    """The same loaded model without the parts that the options leave out."""
    if options.continuations and options.copying:
        return engine
    stated = engine.loaded.properties
    count = stated.continuations if options.continuations else 0
    return engine.using(
        msgspec.structs.replace(stated, continuations=count, copying=stated.copying and options.copying)
    )


def _kind(task: InfillingTask) -> HoleKind:
    return HoleKind.LINE if task.single_line else HoleKind.BODY


def _request(task: InfillingTask, hole: Hole, options: SolveOptions = SolveOptions()) -> InfillRequest:
    segments = (Text(task.parts.before), hole, Text(task.parts.after))
    return InfillRequest(
        task.task_id, segments, language="python", max_steps=options.steps, seed=options.seed, quick=options.quick
    )


def _indent(before: str, solution: str) -> int:
    """The indentation of a block's first line, in characters."""
    line = before[before.rfind("\n") + 1 :]
    spaces = len(line) - len(line.lstrip())
    return spaces if line.strip() else spaces + len(solution) - len(solution.lstrip())


def _block_end(text: str, indent: int) -> int:
    """The offset of the line break before the first line that is indented less than `indent`; -1 without one."""
    position = text.find("\n")
    while position >= 0:
        line = text[position + 1 :].partition("\n")[0]
        if line.strip() and len(line) - len(line.lstrip()) < indent:
            return position
        position = text.find("\n", position + 1)
    return -1

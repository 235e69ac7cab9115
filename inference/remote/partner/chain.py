"""One candidate: its holes are written one after another, each seeing the texts of those before."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from inference.engine.canvas.segments import TextAndHoles
from inference.engine.middle import question
from inference.engine.middle.question import Question, Windows
from inference.engine.work import Counters
from inference.messages import Candidate, InfillRequest
from inference.remote.client import Client
from inference.remote.partner.interfaces import Interface
from inference.remote.partner.writing import Writing
from inference.remote.pause import ServerError

_VARIED = 0.8
"""The temperature of all candidates but the first."""
_TOO_LONG = ("context length", "context size", "context window", "too long", "maximum context", "exceeds", "too large")


@dataclass(frozen=True)
class SharedQuestion:
    """What all candidates of a request share.

    They begin with `windows`; `on_fit` receives the windows that filled a hole. `typed` holds the user's typing, by
    hole. Of the `counters`, `canvases` counts questions and `steps` tokens; `encode_ms` is the time to the first text.
    """

    client: Client
    interface: Interface
    windows: Windows
    on_fit: Callable[[Windows], None]
    request: InfillRequest
    parts: TextAndHoles
    deadline: float | None
    typed: Mapping[int, str]
    counters: Counters

    def pinned(self, number: int) -> str:
        """The required start of a hole's fill."""
        return self.typed.get(number, self.parts.holes[number].starts_with)

    def question(self, number: int, fills: "list[Fill]", windows: Windows, *, candidate: int) -> Question:
        """The question for a hole after the fills of earlier ones; later ones are empty."""
        hole, texts, request = self.parts.holes[number], self.parts.texts, self.request
        before = "".join(text + fill.text for text, fill in zip(texts, fills, strict=False)) + texts[number]
        draft = hole.text if self.interface.sees_drafts and question.is_rewritten(hole) else ""
        most = question.room(hole)
        beside = most + question.tokens(draft) + question.tokens(request.instruction)
        after, controls = "".join(texts[number + 1 :]), self.interface.controls
        prefix, suffix = windows.around(before + self.pinned(number), after, beside, controls)
        taken = beside + question.tokens(prefix) + question.tokens(suffix)
        return Question(
            prefix,
            suffix,
            hole.single_line,
            most,
            request.path,
            request.language,
            windows.context(request.context, taken) if self.interface.context_tokens else (),
            request.instruction,
            draft,
            _VARIED if candidate else 0.0,
            request.seed if request.seed is None else request.seed + candidate,
        )


@dataclass(frozen=True)
class Fill:
    """The text of one hole. `sure` are the probabilities of its tokens, if known."""

    text: str
    is_complete: bool = True
    tokens: int = 0
    sure: tuple[float, ...] = ()


class Chain:
    """A candidate in progress. `run` it in a task, and again after `amend` if that made it incomplete."""

    def __init__(self, asking: SharedQuestion, number: int, on_news: Callable[[], None]) -> None:
        self.fills: list[Fill] = []
        self._asking, self._number, self._on_news = asking, number, on_news
        self._windows = asking.windows
        self._writing: Writing | None = None
        self._pinned = ""
        self._task: asyncio.Task[None] | None = None
        self._again = False

    @property
    def is_complete(self) -> bool:
        """Whether each hole has its text."""
        return len(self.fills) == len(self._asking.parts.holes)

    async def run(self) -> None:
        """Fills the remaining holes until the deadline. Raises ServerError; cancelling aborts open requests."""
        while not self.is_complete and not self._late():
            hole = self._asking.parts.holes[len(self.fills)]
            if hole.strength <= 0.0:
                self.fills.append(Fill(hole.text))
            else:
                await self._write()

    def amend(self, number: int, text: str) -> None:
        """`text` is now at the start of a hole: rewrites whatever disagrees with it."""
        if number < len(self.fills):
            if not self.fills[number].text.startswith(text):
                del self.fills[number:]
                self._restart()
        elif not self._agrees():
            self._restart()

    def shown(self) -> list[Fill]:
        """The fills, including the one in progress."""
        if self.is_complete or self._writing is None:
            return self.fills
        return [*self.fills, self._fill(self._writing)]

    def candidate(self) -> Candidate | None:
        """The candidate so far, up to its last whole line; None if there is no text, or half of a rewritten one."""
        writing = None if self.is_complete else self._writing
        fills = [*self.fills, self._cut(writing)] if writing and writing.text else self.fills
        asking, holes = self._asking, self._asking.parts.holes
        cut = [hole for hole, fill in zip(holes, fills, strict=False) if not fill.is_complete]
        if any(map(question.is_rewritten, cut)) or not any(fill.text for fill in fills):
            return None
        rest = range(len(fills), len(holes))
        sure = [value for fill in fills for value in fill.sure]
        tokens = sum(fill.tokens for fill in fills)
        return Candidate(
            asking.request.id,
            tuple(fill.text for fill in fills) + tuple(holes[n].text or asking.pinned(n) for n in rest),
            score=sum(math.log(max(value, 1e-9)) for value in sure) / max(1, len(sure)),
            steps=tokens,
            tokens=tokens,
            ms=asking.counters.ms(),
            complete=not rest and all(fill.is_complete for fill in fills),
            unfilled=tuple(rest),
            confidence=sum(sure) / len(sure) if sure else 1.0,
        )

    async def _write(self) -> None:
        asking, number = self._asking, len(self.fills)
        asked = asking.question(number, self.fills, self._windows, candidate=self._number)
        self._pinned, self._again = asking.pinned(number), False
        writing = self._writing = Writing(asking.client, asking.interface, asked, asking.deadline)
        asking.counters.canvases += 1
        task = self._task = asyncio.create_task(writing.run(self._heard), name="writing")
        try:
            await asyncio.wait([task], timeout=self._left_s())
        finally:
            task.cancel()
            await asyncio.wait([task])
            asking.counters.steps += writing.tokens
            asking.counters.encode_ms = asking.counters.encode_ms or writing.first_ms
        if self._again or task.cancelled() or not self._is_answered(task):
            return
        fill = self._fill(writing) if writing.end == "stop" else self._cut(writing)
        if fill.text.startswith(asking.pinned(number)):  # otherwise more was typed just when the answer ended
            self.fills.append(fill)
            self._writing = None
            asking.on_fit(self._windows)

    def _is_answered(self, task: "asyncio.Task[None]") -> bool:
        """False means to ask with less text. Raises any other error."""
        error = task.exception()
        if error is None or isinstance(error, TimeoutError):
            return True
        said = str(error).lower()
        is_too_long = isinstance(error, ServerError) and error.status in (400, 413, 422, 500)
        if is_too_long and any(words in said for words in _TOO_LONG) and (smaller := self._windows.smaller()):
            self._windows = smaller
            return False
        raise error

    def _heard(self) -> None:
        if not self._agrees():
            self._restart()
        self._on_news()

    def _agrees(self) -> bool:
        """Whether the text in progress agrees with what was typed since the request."""
        typed = self._asking.pinned(len(self.fills)) if not self.is_complete else ""
        if self._writing is None or not typed:
            return True
        text = self._pinned + self._writing.text
        return text.startswith(typed) or (not self._writing.end and typed.startswith(text))

    def _restart(self) -> None:
        self._again, self._writing = True, None
        if self._task is not None:
            self._task.cancel()

    def _fill(self, writing: Writing) -> Fill:
        return Fill(self._pinned + writing.text, True, writing.tokens, tuple(writing.sure))

    def _cut(self, writing: Writing) -> Fill:
        """The usable part of a truncated text: up to its last whole line, or all of a single line.

        Whole lines count as complete if the server ran out of room, unless the text replaces another.
        """
        text, is_whole = writing.text.rstrip("\ufffd"), False
        if not writing.question.single_line and "\n" in text.strip("\n"):
            is_rewritten = question.is_rewritten(self._asking.parts.holes[len(self.fills)])
            is_whole = writing.end == "length" and not is_rewritten
            text = text.rpartition("\n")[0]
        return Fill(self._pinned + text, is_whole, writing.tokens, tuple(writing.sure))

    def _left_s(self) -> float | None:
        deadline = self._asking.deadline
        return None if deadline is None else max(0.0, deadline - time.monotonic())

    def _late(self) -> bool:
        return self._left_s() == 0.0

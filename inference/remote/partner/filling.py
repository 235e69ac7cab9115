"""Works on one request: writes candidates side by side, each hole after hole, and pins the user's typing in each.

A candidate's holes are written one after another, so that each sees the texts of those before.
"""

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from inference.engine.canvas import answered
from inference.engine.middle import question
from inference.engine.middle.question import Question, Windows
from inference.messages import MAX_CANDIDATES, Candidate, Draft, Request
from inference.models import fim_tokens
from inference.models.family import ModelError
from inference.remote import http, served
from inference.remote.address import PARTNER
from inference.remote.http import AnswerError, ServedModel, ServerError
from inference.remote.partner import interfaces
from inference.remote.partner.answer import Answer
from inference.remote.partner.interfaces import Interface
from inference.remote.served import RemoteEvent, RemoteWork, ServedInfiller

log = logging.getLogger(__name__)
_SIDE_BY_SIDE = 4
"""How many candidates of one request to write concurrently."""
_DRAFT_S = 0.05
"""The least time between two drafts."""
_VARIED = 0.8
"""The temperature of all candidates but the first."""
_REFUSED = (400, 404, 405, 415, 422, 500, 501)
"""The server exists but does not support that. Any other error says nothing about its abilities."""
_FOR_A_TOKEN = Question("def add(a, b):\n    return ", "\n", single_line=True, max_tokens=1)
_TOO_LONG = ("context length", "context size", "context window", "too long", "maximum context", "exceeds", "too large")


class _Defaults(msgspec.Struct, frozen=True):
    n_ctx: Annotated[int, Meta(ge=1, le=(1 << 31) - 1)] | None = None


class _Props(msgspec.Struct, frozen=True):
    default_generation_settings: _Defaults


@dataclass(frozen=True)
class Fill:
    """The text of one hole. `sure` are the probabilities of its tokens, if known."""

    text: str
    is_complete: bool = True
    tokens: int = 0
    sure: tuple[float, ...] = ()


class Writer:
    """A candidate in progress. `write` it in a task, and again after `amend` if that made it incomplete."""

    def __init__(self, infilling: "PartnerInfilling", number: int) -> None:
        self.fills: list[Fill] = []
        self._infilling = infilling
        self._number = number
        self._windows = infilling.partner.windows
        self._answer: Answer | None = None
        self._pinned = ""
        """The start of the hole in progress, as the server was told."""
        self._task: asyncio.Task[None] | None = None

    @property
    def is_complete(self) -> bool:
        return len(self.fills) == len(self._infilling.holes)

    async def write(self) -> None:
        """Fills the remaining holes until the deadline. Raises ServerError; cancelling aborts open requests."""
        while not self.is_complete and self._infilling.left_s() != 0.0:
            hole = self._infilling.holes[len(self.fills)]
            if hole.strength <= 0.0:
                self.fills.append(Fill(hole.text))
            else:
                await self._ask()

    def amend(self, number: int, text: str) -> None:
        """`text` is now at the start of a hole: rewrites whatever disagrees with it."""
        if number >= len(self.fills):
            self._restart_unless_agreeing()
        elif not self.fills[number].text.startswith(text):
            del self.fills[number:]
            self._restart()

    def shown(self) -> list[Fill]:
        if self.is_complete or self._answer is None:
            return self.fills
        return [*self.fills, self._whole(self._answer)]

    def candidate(self) -> Candidate | None:
        """The candidate so far, up to its last whole line; None if there is no text, or half of a rewritten one."""
        request = self._infilling.request
        holes = self._infilling.holes
        answer = None if self.is_complete else self._answer
        fills = [*self.fills, self._cut(answer)] if answer and answer.text else self.fills
        cut = [hole for hole, fill in zip(holes, fills, strict=False) if not fill.is_complete]
        if any(map(question.is_rewritten, cut)) or not any(fill.text for fill in fills):
            return None
        rest = range(len(fills), len(holes))
        sure = [value for fill in fills for value in fill.sure]
        tokens = sum(fill.tokens for fill in fills)
        return Candidate(
            request.id,
            tuple(fill.text for fill in fills) + tuple(holes[n].text or self._infilling.pinned(n) for n in rest),
            score=sum(math.log(max(value, 1e-9)) for value in sure) / max(1, len(sure)),
            steps=tokens,
            tokens=tokens,
            ms=self._infilling.counters.ms(),
            complete=not rest and all(fill.is_complete for fill in fills),
            unfilled=tuple(rest),
            confidence=_mean(sure),
        )

    async def _ask(self) -> None:
        """Asks for the next hole's text; for less text than before if the server cannot take so much."""
        infilling = self._infilling
        number = len(self.fills)
        self._pinned = infilling.pinned(number)
        answer = self._answer = infilling.ask(number, self.fills, self._windows, candidate=self._number)
        task = self._task = asyncio.create_task(answer.receive(self._heard), name="answer")
        try:
            await asyncio.wait([task], timeout=infilling.left_s())
        finally:
            task.cancel()
            await asyncio.wait([task])
            infilling.counters.steps += answer.tokens
            infilling.counters.encode_ms = infilling.counters.encode_ms or answer.first_ms
        if self._answer is not answer or task.cancelled() or not self._is_answered(task):
            return
        fill = self._whole(answer) if answer.end == "stop" else self._cut(answer)
        if fill.text.startswith(infilling.pinned(number)):  # otherwise more was typed just when the answer ended
            self.fills.append(fill)
            self._answer = None
            infilling.partner.learn(self._windows)

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
        self._restart_unless_agreeing()
        self._infilling.news.set()

    def _restart_unless_agreeing(self) -> None:
        """Asks again if the text in progress disagrees with what was typed since the request."""
        typed = self._infilling.pinned(len(self.fills)) if not self.is_complete else ""
        if self._answer is not None and typed:
            text = self._pinned + self._answer.text
            if not text.startswith(typed) and (self._answer.end or not typed.startswith(text)):
                self._restart()

    def _restart(self) -> None:
        self._answer = None
        if self._task is not None:
            self._task.cancel()

    def _whole(self, answer: Answer) -> Fill:
        return Fill(self._pinned + answer.text, True, answer.tokens, answer.sure)

    def _cut(self, answer: Answer) -> Fill:
        """The usable part of a truncated text: up to its last whole line, or all of a single line.

        Whole lines count as complete if the server ran out of room, unless the text replaces another.
        """
        text = answer.text.rstrip("\ufffd")
        is_whole = False
        if not answer.question.single_line and "\n" in text.strip("\n"):
            is_rewritten = question.is_rewritten(self._infilling.holes[len(self.fills)])
            is_whole = answer.end == "length" and not is_rewritten
            text = text.rpartition("\n")[0]
        return Fill(self._pinned + text, is_whole, answer.tokens, answer.sure)


class PartnerInfilling(RemoteWork):
    """The work on one request, with concurrent candidates.

    Of its statistics, `canvases` counts questions and `steps` tokens; `encode_ms` is the time to the first text.
    """

    def __init__(self, partner: "PartnerInfiller", request: Request, deadline: float | None) -> None:
        super().__init__(partner, request, deadline)
        request = self.request
        self.holes = self._parts.holes
        self.partner = partner
        self._interface = partner.interface
        self._typed: dict[int, str] = {}
        self._places = asyncio.Semaphore(_SIDE_BY_SIDE)
        count = 1 if request.quick else min(max(1, request.candidates), MAX_CANDIDATES)
        self._writers = [Writer(self, number) for number in range(count)]
        self._running: dict[Writer, asyncio.Task[None]] = {}
        self._drawn_s = 0.0

    def pinned(self, number: int) -> str:
        """The required start of a hole's fill."""
        return self._typed.get(number, self.holes[number].starts_with)

    def ask(self, number: int, fills: list[Fill], windows: Windows, *, candidate: int) -> Answer:
        """The answer to a question for a hole after the fills of earlier ones; later ones are empty."""
        hole = self.holes[number]
        texts = self._parts.texts
        request = self.request
        before = "".join(text + fill.text for text, fill in zip(texts, fills, strict=False)) + texts[number]
        draft = hole.text if self._interface.sees_drafts and question.is_rewritten(hole) else ""
        most = question.room(hole)
        beside = most + question.tokens(draft) + question.tokens(request.instruction)
        after = "".join(texts[number + 1 :])
        prefix, suffix = windows.around(before + self.pinned(number), after, beside, self._interface.controls)
        taken = beside + question.tokens(prefix) + question.tokens(suffix)
        asked = Question(
            prefix,
            suffix,
            hole.single_line,
            most,
            path=request.path,
            language=request.language,
            context=windows.context(request.context, taken) if self._interface.context_tokens else (),
            instruction=request.instruction,
            draft=draft,
            temperature=_VARIED if candidate else 0.0,
            seed=request.seed if request.seed is None else request.seed + candidate,
        )
        self.counters.canvases += 1
        return Answer(self._server.client, self._interface, asked, self._deadline)

    def left_s(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def _pin(self, hole: int, text: str) -> None:
        self._typed[hole] = text
        for writer in self._writers:
            writer.amend(hole, text)

    async def _work(self) -> AsyncGenerator[RemoteEvent, None]:
        try:
            for writer in self._writers:
                self._start(writer)
            while not self._is_over():
                await self.news.wait()
                self.news.clear()
                if self.request.drafts and (draft := self._draft()):
                    yield draft
            errors = [error for task in self._running.values() if (error := task.exception()) is not None]
            if errors and len(errors) == len(self._writers):
                raise errors[0]
            for candidate in self._candidates():
                yield candidate
            yield self._done()
        finally:
            for task in self._running.values():
                task.cancel()
            if self._running:
                await asyncio.wait(self._running.values())

    def _start(self, writer: Writer) -> None:
        async def write() -> None:
            async with self._places:
                await writer.write()

        task = self._running[writer] = asyncio.create_task(write(), name="candidate")
        task.add_done_callback(lambda _: self.news.set())

    def _is_over(self) -> bool:
        """Whether all candidates are written. One that was, but disagrees with later typing, continues."""
        for writer, task in self._running.items():
            if task.done() and not writer.is_complete and not task.exception() and not self._late():
                self._start(writer)
        return all(task.done() for task in self._running.values())

    def _candidates(self) -> list[Candidate]:
        """Each text once: the first candidate is the likeliest; last those that are cut or have an empty hole."""
        found: dict[tuple[str, ...], Candidate] = {}
        for writer in self._writers:
            candidate = None if self._running[writer].exception() else writer.candidate()
            flaws = (answered.has_halves, answered.repeats)
            if candidate and not any(any(map(flaw, candidate.texts, self.holes)) for flaw in flaws):
                found.setdefault(candidate.texts, candidate)
        ranked = [*list(found.values())[:1], *sorted(list(found.values())[1:], key=lambda each: -each.score)]
        return sorted(ranked, key=lambda one: (not one.complete, not all(one.texts)))

    def _draft(self) -> Draft | None:
        """The first candidate's current state; None if nothing is new."""
        now_s = time.monotonic()
        fills = self._writers[0].shown()
        if now_s < self._drawn_s + _DRAFT_S or not any(fill.text for fill in fills):
            return None
        self._drawn_s = now_s
        most = sum(map(question.room, self.holes))
        rest: list[tuple[()]] = [()] * (len(self.holes) - len(fills))
        return Draft(
            self.request.id,
            min(most, sum(fill.tokens for fill in fills)),
            most,
            pieces=(*((fill.text,) for fill in fills), *rest),
            confidences=(*((_mean(fill.sure),) for fill in fills), *rest),
        )


def _mean(sure: "list[float] | tuple[float, ...]") -> float:
    return sum(sure) / len(sure) if sure else 1.0


class PartnerInfiller(ServedInfiller):
    """An autoregressive model on a server, as the worker knows it."""

    role = PARTNER
    model_setting = "partner.model"
    handshake_s = 120.0
    """It may load its model for the first probe."""

    async def look(self) -> None:
        """Finds out the server's model, and how to ask it: asks it for one token."""
        try:
            model = await self._served()
            props: _Props | None = None
            with suppress(AnswerError, ServerError):  # llama.cpp alone describes itself
                props = http.decoded(await self.client.get("/props"), _Props)
            interface = await self._first_that_answers(model.id, is_llama=props is not None)
        except AnswerError as error:
            raise ModelError(f"{self.client.url} is not a server of models: {error}") from error
        except ServerError as error:
            raise ModelError(str(error)) from error
        name = served.shown(model.id) or "a model without a name"
        if self.model and (name, interface.kind) != (self.model, self.partner):
            log.info("another server answers at %s: it serves %s", self.client.url, name)
        limit = model.max_model_len or (props.default_generation_settings.n_ctx if props else None)
        self.windows = Windows(limit)
        self.interface = interface
        self.model = name
        self.partner = interface.kind
        self.sees_drafts = interface.sees_drafts
        self.context_tokens = interface.context_tokens

    def infill(self, request: Request, *, deadline: float | None = None) -> PartnerInfilling:
        return PartnerInfilling(self, request, deadline)

    def learn(self, windows: Windows) -> None:
        """The server accepted these after refusing larger ones, so use them from now on."""
        if windows.context_tokens == self.windows.context_tokens and windows.share < self.windows.share:
            self.windows = windows

    async def _served(self) -> ServedModel:
        """The requested model, or the only one; a server that lists none has that, or one without a name."""
        try:
            return await self.listed_model()
        except ServerError as error:
            if error.status not in (404, 405):
                raise
            return ServedModel(self._arguments.server_model or "")

    async def _kinds(self, model: str, *, is_llama: bool) -> list[str]:
        """The ways to ask that are worth a try, best first."""
        kind = self._arguments.partner or "auto"
        if kind != "auto":
            return [kind]
        if is_llama:
            return ["infill", *_family(model), "suffix", "chat"]
        with suppress(ServerError):  # Ollama puts a prompt into the model's own template: tokens in it do harm there
            if b"version" in await self.client.get("/api/version"):
                return ["suffix", "chat"]
        return [*_family(model), "suffix", "chat"]

    async def _first_that_answers(self, model: str, *, is_llama: bool) -> Interface:
        """Raises ModelError, which lists the answer to each attempt, and ServerError."""
        refused: list[str] = []
        kinds = await self._kinds(model, is_llama=is_llama)
        for kind in kinds:
            for rich in (True, False):
                interface = interfaces.of_kind(kind, model, rich=rich)
                try:
                    await Answer(self.client, interface, _FOR_A_TOKEN, None).receive(lambda: None)
                except TimeoutError:
                    why = f"the server {self.client.url} did not end its answer"
                except ServerError as error:
                    if error.status and error.status not in _REFUSED:
                        raise
                    why = str(error)
                else:
                    return interface
            refused.append(f"{kind} ({interface.path}): {why}")
        what = f"it fills no hole when asked by `{kinds[0]}`" if len(kinds) == 1 else "it fills no hole"
        raise ModelError(
            f"{self.client.url} has {served.shown(model)}, but {what}: {'; '.join(refused)[:1500]}; set partner.kind "
            "to what it supports"
        )


def _family(model: str) -> list[str]:
    """The family that the model's name shows; none if it shows none."""
    found = fim_tokens.kind_of(model)
    return [found] if found else []

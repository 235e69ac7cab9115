"""Works on one request: writes candidates side by side, each hole after hole, and pins the user's typing in each.

A candidate's holes are written one after another, so that each sees the texts of those before.
"""

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from inference.deadline import Deadline
from inference.engine.canvas import answered
from inference.engine.fim import question
from inference.engine.fim.question import Question, Windows
from inference.messages import MAX_CANDIDATES, Candidate, Draft
from inference.models import fim_tokens
from inference.models.family import ModelError
from inference.remote import served
from inference.remote.http import AnswerError, Client, ServerError, decoded
from inference.remote.partner import interfaces
from inference.remote.partner.interfaces import DONE, Events, Interface, Piece, most_characters
from inference.remote.served import RemoteWork, ServedInfiller, ServedModel
from inference.serving.jobs import Job, JobEvent

log = logging.getLogger(__name__)
_SIDE_BY_SIDE = 4
"""How many candidates of one request to write concurrently."""
_DRAFT_S = 0.05
"""The least time between two drafts."""
_LONGEST_S = 300.0
"""How long a text without a deadline may take: a server may stream for ever."""
_BATCH = 256
"""Read this many events before yielding to the event loop."""
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


class Answer:
    """The text that a server writes for a question. `receive` it in a task, and look at it meanwhile."""

    def __init__(self, client: Client, interface: Interface, asked: Question, deadline: Deadline | None) -> None:
        self.question = asked
        self.end = ""
        """Why it has ended: "stop", or "length" if it was cut."""
        self.first_ms = 0.0
        """The delay of the first text after the request; 0 before."""
        self._client = client
        self._interface = interface
        self._deadline = deadline
        self._said = ""
        self._sure: list[tuple[int, tuple[float, ...]]] = []

    async def receive(self, on_text: Callable[[], None]) -> None:
        """Receives the text; calls `on_text` when there is more. Raises ServerError, TimeoutError at the limit."""
        events = Events()
        began = time.monotonic()
        stream = self._client.stream(self._interface.path, self._interface.body(self.question), self._deadline)
        async with asyncio.timeout(_LONGEST_S):
            async with aclosing(stream) as parts:
                async for part in parts:
                    with self._client.making_sense():
                        await self._take(events.feed(part))
                    if self._said and not self.first_ms:
                        self.first_ms = (time.monotonic() - began) * 1000
                    on_text()
                    if self.end:
                        break
        if not self._said and not self._sure:
            raise ServerError(f"the server {self._client.url} ended its answer without any text; see its log")
        self.end = self.end or "length"  # a stream without an end event may have broken off

    async def _take(self, events: list[bytes]) -> None:
        for first in range(0, len(events), _BATCH):
            pieces = [self._interface.read(event) for event in events[first : first + _BATCH]]
            self._add([piece for piece in pieces if piece is not None])
            if self.end:
                return
            await asyncio.sleep(0)

    def _add(self, pieces: list[Piece]) -> None:
        length = len(self._said)
        for piece in pieces:
            length += len(piece.text)
            if piece is not DONE:
                self._sure.append((length, piece.sure))
            self.end = self.end or piece.end
        most = most_characters(self.question)
        self._said = (self._said + "".join(piece.text for piece in pieces))[: most + 1]
        if self._interface.find(self._said, self.question, ended=False).is_closed:
            self.end = "stop"
        elif len(self._said) > most:
            self.end = "length"

    @property
    def tokens(self) -> int:
        """The number of tokens so far, as far as known."""
        return sum(max(1, len(sure)) for _, sure in self._sure)

    @property
    def text(self) -> str:
        """The fill so far, after its required start; once it has ended, fitted to the file."""
        found = self._interface.find(self._said, self.question, ended=bool(self.end))
        return self._interface.fitted(self._said[found.start : found.end], self.question, ended=bool(self.end))

    @property
    def sure(self) -> tuple[float, ...]:
        """The probabilities of the fill's tokens, as far as known."""
        found = self._interface.find(self._said, self.question, ended=bool(self.end))
        return tuple(value for end, values in self._sure if found.start < end <= found.end for value in values)


class Writer:
    """A candidate in progress: `start` it, and again if it has ended incomplete."""

    def __init__(self, infilling: "PartnerInfilling", number: int) -> None:
        self.fills: list[Fill] = []
        self.error: Exception | None = None
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

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Writes the remaining holes until the deadline."""
        self._task = asyncio.create_task(self._write(), name="candidate")
        self._task.add_done_callback(lambda _: self._infilling.job.news.set())

    def stop(self) -> "list[asyncio.Task[None]]":
        """Begins to abort its request; the tasks to wait for."""
        if self._task is None:
            return []
        self._task.cancel()
        return [self._task]

    def heed(self, typed: Sequence[tuple[int, str]]) -> None:
        """Drops what disagrees with what was `typed` just now, or since the request, and ends, to be started again."""
        now = len(self.fills)
        since = [] if self.is_complete else [(now, self._infilling.pinned(now))]
        changed = [number for number, text in (*typed, *since) if not self._agrees(number, text)]
        if changed:
            del self.fills[min(changed) :]
            self._answer = None
            if self._task is not None:
                self._task.cancel()

    def _agrees(self, number: int, typed: str) -> bool:
        """Whether the text of a hole, as far as it is known, begins with what was typed there."""
        if number < len(self.fills):
            return self.fills[number].text.startswith(typed)
        if number > len(self.fills) or self._answer is None or not typed:  # its text takes time to find
            return True
        text = self._pinned + self._answer.text
        return text.startswith(typed) or (not self._answer.end and typed.startswith(text))

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

    async def _write(self) -> None:
        self.error = None
        try:
            async with self._infilling.places:
                while not self.is_complete:
                    hole = self._infilling.holes[len(self.fills)]
                    if hole.strength <= 0.0:
                        self.fills.append(Fill(hole.text))
                    elif not await self._ask():
                        break
        except Exception as error:
            self.error = error

    async def _ask(self) -> bool:
        """Asks for the next hole's text. False: the deadline has passed. Raises ServerError."""
        infilling = self._infilling
        deadline = infilling.job.deadline
        number = len(self.fills)
        self._pinned = infilling.pinned(number)
        answer = self._answer = infilling.ask(number, self.fills, self._windows, candidate=self._number)
        try:
            async with asyncio.timeout_at(deadline.time_s if deadline else None) as limit:
                await answer.receive(infilling.job.news.set)
        except TimeoutError:
            if limit.expired():
                return False
        except ServerError as error:
            smaller = self._windows.smaller() if _is_too_long(error) else None
            if smaller is None:
                raise
            self._windows = smaller
            return True
        finally:
            infilling.counters.steps += answer.tokens
            infilling.counters.encode_ms = infilling.counters.encode_ms or answer.first_ms
        fill = self._whole(answer) if answer.end == "stop" else self._cut(answer)
        if fill.text.startswith(infilling.pinned(number)):  # otherwise more was typed just when the answer ended
            self.fills.append(fill)
            self._answer = None
            infilling.partner.learn(self._windows)
        return True

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


def _is_too_long(error: ServerError) -> bool:
    said = str(error).lower()
    return error.status in (400, 413, 422, 500) and any(words in said for words in _TOO_LONG)


class PartnerInfilling(RemoteWork):
    """The work on one request, with concurrent candidates.

    Of its statistics, `canvases` counts questions and `steps` tokens; `encode_ms` is the time to the first text.
    """

    def __init__(self, partner: "PartnerInfiller", job: Job) -> None:
        super().__init__(partner, job)
        self.holes = self._parts.holes
        self.partner = partner
        self.places = asyncio.Semaphore(_SIDE_BY_SIDE)
        self._interface = partner.interface
        count = 1 if self.request.quick else min(max(1, self.request.candidates), MAX_CANDIDATES)
        self._writers = [Writer(self, number) for number in range(count)]
        self._drawn_s = 0.0

    def pinned(self, number: int) -> str:
        """The required start of a hole's fill."""
        return self.job.typed.get(number, self.holes[number].starts_with)

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
        return Answer(self._server.client, self._interface, asked, self.job.deadline)

    async def events(self) -> AsyncGenerator[JobEvent, None]:
        """Drafts if requested, then the candidates, best first. Raises ServerError if none could be written."""
        try:
            while not self._is_over():
                await self.job.news.wait()
                self.job.news.clear()
                typed = self.job.newly_typed()
                for writer in self._writers:
                    writer.heed(typed)
                if self.request.drafts and (draft := self._draft()):
                    yield draft
            errors = [writer.error for writer in self._writers if writer.error]
            if len(errors) == len(self._writers):
                raise errors[0]
            for candidate in self._candidates():
                yield candidate
            yield self._done()
        finally:
            if stopping := [task for writer in self._writers for task in writer.stop()]:
                await asyncio.wait(stopping)

    def _is_over(self) -> bool:
        """Whether all candidates are written; starts those that are not, unless they failed or it is too late."""
        for writer in self._writers:
            if not (writer.is_running or writer.is_complete or writer.error or self._late()):
                writer.start()
        return not any(writer.is_running for writer in self._writers)

    def _candidates(self) -> list[Candidate]:
        """Each text once: the first candidate is the likeliest; last those that are cut or have an empty hole."""
        found: dict[tuple[str, ...], Candidate] = {}
        for writer in self._writers:
            candidate = None if writer.error else writer.candidate()
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

    model_setting = "partner.model"
    expected = "a server of models"
    handshake_s = 120.0
    """It may load its model for the first probe."""

    async def _find_out(self) -> None:
        """Finds out the server's model, and how to ask it: asks it for one token."""
        model = await self._served()
        props: _Props | None = None
        with suppress(AnswerError, ServerError):  # llama.cpp alone describes itself
            props = decoded(await self.client.ask("/props"), _Props)
        interface = await self._first_that_answers(model.id, is_llama=props is not None)
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

    def infill(self, job: Job) -> AsyncGenerator[JobEvent, None]:
        return PartnerInfilling(self, job).events()

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
            if b"version" in await self.client.ask("/api/version"):
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

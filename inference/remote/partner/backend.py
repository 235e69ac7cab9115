"""Fills holes with an autoregressive model on a server: requests all candidates of a request side by side.

The holes of a candidate are filled one after another, so that each sees the texts of those before.
"""

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from inference.deadline import Deadline
from inference.ending import slice_pieces
from inference.engine.canvas import results
from inference.engine.canvas.results import TokenTexts
from inference.engine.fim import query
from inference.engine.fim.query import InfillQuery, PartnerContextWindow
from inference.messages import MAX_CANDIDATES, Draft, FilledHoles, estimate_tokens
from inference.models import fim_tokens
from inference.models.family import ModelError
from inference.remote import server_backend
from inference.remote.http import AnswerError, ModelServerClient, ServerError, decode_json
from inference.remote.partner import apis
from inference.remote.partner.apis import DONE, ServerSentEvents, StreamDelta, SuffixCompletionApi, max_answer_chars
from inference.remote.server_backend import RemoteBackend, RemoteRun, ServedModel
from inference.serving.scheduler import Job, JobEvent

log = logging.getLogger(__name__)
_MAX_CONCURRENT = 4
"""How many candidates of one request to stream concurrently."""
_DRAFT_INTERVAL_S = 0.05
_MAX_STREAM_S = 300.0
"""How long a text without a deadline may take, since a server may stream endlessly."""
_EVENTS_PER_YIELD = 256
"""Read this many events before yielding to the event loop."""
_ALTERNATIVE_TEMPERATURE = 0.8
"""The temperature of all candidates but the first."""
_UNSUPPORTED_STATUSES = (400, 404, 405, 415, 422, 500, 501)
"""The HTTP statuses of a server that does not support a request. Others say nothing about its abilities."""
_PROBE_QUERY = InfillQuery("def add(a, b):\n    return ", "\n", single_line=True, max_tokens=1)
_TOO_LONG = ("context length", "context size", "context window", "too long", "maximum context", "exceeds", "too large")


class _Defaults(msgspec.Struct, frozen=True):
    n_ctx: Annotated[int, Meta(ge=1, le=(1 << 31) - 1)] | None = None


class _Props(msgspec.Struct, frozen=True):
    default_generation_settings: _Defaults


@dataclass(frozen=True)
class PartnerFill:
    """The text of one hole, also split into tokens if the server sent all probabilities."""

    text: str
    is_complete: bool = True
    tokens: int = 0
    token_texts: TokenTexts = ((), ())


class StreamedFill:
    """The text that a server streams for a query. `receive` runs in a task; the text can be read meanwhile."""

    def __init__(
        self, client: ModelServerClient, api: SuffixCompletionApi, question: InfillQuery, deadline: Deadline | None
    ) -> None:
        self.question = question
        self.end = ""
        """Why the text has ended: "stop", or "length" if it was cut."""
        self.first_ms = 0.0
        """The time from the request to the first text; 0 before that."""
        self._client = client
        self._api = api
        self._deadline = deadline
        self._received = ""
        self._deltas: list[StreamDelta] = []

    async def receive(self, on_text: Callable[[], None]) -> None:
        """Receives the text; calls `on_text` when there is more. Raises ServerError, TimeoutError at the limit."""
        events = ServerSentEvents()
        began = time.monotonic()
        stream = self._client.stream(self._api.path, self._api.request_body(self.question), self._deadline)
        async with asyncio.timeout(_MAX_STREAM_S):
            async with aclosing(stream) as parts:
                async for part in parts:
                    with self._client.blaming_server():
                        await self._read_events(events.feed(part))
                    if self._received and not self.first_ms:
                        self.first_ms = (time.monotonic() - began) * 1000
                    on_text()
                    if self.end:
                        break
        if not self._received and not self._deltas:
            raise ServerError(f"the server {self._client.url} ended its answer without any text; see its log")
        self.end = self.end or "length"  # a stream without an end event may have broken off

    async def _read_events(self, events: list[bytes]) -> None:
        for first in range(0, len(events), _EVENTS_PER_YIELD):
            deltas = [self._api.parse_event(event) for event in events[first : first + _EVENTS_PER_YIELD]]
            self._add([piece for piece in deltas if piece is not None])
            if self.end:
                return
            await asyncio.sleep(0)

    def _add(self, deltas: list[StreamDelta]) -> None:
        for piece in deltas:
            if piece is not DONE:
                self._deltas.append(piece)
            self.end = self.end or piece.end
        max_chars = max_answer_chars(self.question)
        self._received = (self._received + "".join(piece.text for piece in deltas))[: max_chars + 1]
        if self._api.find_fill(self._received, self.question, ended=False).is_closed:
            self.end = "stop"
        elif len(self._received) > max_chars:
            self.end = "length"

    @property
    def tokens(self) -> int:
        """The number of tokens received so far, if known."""
        return sum(max(1, len(delta.probs)) for delta in self._deltas)

    @property
    def text(self) -> str:
        """The fill so far, after its required start. Once it has ended, without what repeats the file."""
        block = self._api.find_fill(self._received, self.question, ended=bool(self.end))
        return self._api.trim_fill(self._received[block.start : block.end], self.question, ended=bool(self.end))

    @property
    def token_texts(self) -> TokenTexts:
        """The fill as it was streamed, each part with its least likely token's probability; empty if one is unknown."""
        sent, text = [delta for delta in self._deltas if delta.text], self.text
        block = self._api.find_fill(self._received, self.question, ended=bool(self.end))
        first = self._received.find(text, block.start)
        if first < 0 or not all(delta.probs for delta in sent):
            return (), ()
        return slice_pieces(
            first, first + len(text), [delta.text for delta in sent], [min(delta.probs) for delta in sent]
        )


class CandidateInProgress:
    """A candidate in progress, once it is started."""

    def __init__(self, run: "PartnerRun", index: int) -> None:
        self.fills: list[PartnerFill] = []
        self.error: Exception | None = None
        self._run = run
        self._index = index
        self._context_window = run.partner.context_window
        self._answer: StreamedFill | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_complete(self) -> bool:
        return len(self.fills) == len(self._run.holes)

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Starts to fill the remaining holes, until the deadline."""
        self._task = asyncio.create_task(self._write(), name="candidate")
        self._task.add_done_callback(lambda _: self._run.wakeup.set())

    def stop(self) -> "list[asyncio.Task[None]]":
        """Aborts the request; returns the tasks to wait for."""
        if self._task is None:
            return []
        self._task.cancel()
        return [self._task]

    def fills_so_far(self) -> list[PartnerFill]:
        if self.is_complete or self._answer is None:
            return self.fills
        return [*self.fills, self._fill(self._answer, self._answer.text)]

    def candidate(self) -> FilledHoles | None:
        """The candidate so far, up to its last whole line; None if there is no text, or half of a rewritten one."""
        request = self._run.request
        holes = self._run.holes
        answer = None if self.is_complete else self._answer
        fills = [*self.fills, self._truncated_fill(answer)] if answer and answer.text else self.fills
        incomplete = [hole for hole, fill in zip(holes, fills, strict=False) if not fill.is_complete]
        if any(map(query.is_rewrite, incomplete)) or not any(fill.text for fill in fills):
            return None
        unfilled = range(len(fills), len(holes))
        probs = [prob for fill in fills for prob in fill.token_texts[1]]
        tokens = sum(fill.tokens for fill in fills)
        pieces, confidences = zip(*(fill.token_texts for fill in fills), strict=True)
        return FilledHoles(
            request.id,
            tuple(fill.text for fill in fills) + tuple(holes[n].text or holes[n].starts_with for n in unfilled),
            score=sum(math.log(max(value, 1e-9)) for value in probs) / max(1, len(probs)),
            steps=tokens,
            tokens=tokens,
            ms=self._run.counters.ms(),
            complete=not unfilled and all(fill.is_complete for fill in fills),
            unfilled=tuple(unfilled),
            pieces=pieces + ((),) * len(unfilled),
            confidences=confidences + ((),) * len(unfilled),
        )

    async def _write(self) -> None:
        self.error = None
        try:
            async with self._run.slots:
                while not self.is_complete:
                    hole = self._run.holes[len(self.fills)]
                    if hole.strength <= 0.0:
                        self.fills.append(PartnerFill(hole.text))
                    elif not await self._write_hole():
                        break
        except Exception as error:
            self.error = error

    async def _write_hole(self) -> bool:
        """Fills the next hole. Returns False if the deadline is past. Raises ServerError."""
        run = self._run
        hole_index = len(self.fills)
        answer = self._answer = run.request_fill(hole_index, self.fills, self._context_window, candidate=self._index)
        try:
            async with asyncio.timeout_at(run.job.deadline.time_s) as limit:
                await answer.receive(run.wakeup.set)
        except TimeoutError:
            if limit.expired():
                return False
        except ServerError as error:
            smaller = self._context_window.smaller() if _is_too_long(error) else None
            if smaller is None:
                raise
            self._context_window = smaller
            return True
        finally:
            run.counters.steps += answer.tokens
            run.counters.encode_ms = run.counters.encode_ms or answer.first_ms
        fill = self._fill(answer, answer.text) if answer.end == "stop" else self._truncated_fill(answer)
        self.fills.append(fill)
        self._answer = None
        run.partner.adopt_context_window(self._context_window)
        return True

    def _fill(self, answer: StreamedFill, text: str, *, is_complete: bool = True) -> PartnerFill:
        start = self._run.holes[len(self.fills)].starts_with
        fill = start + text
        pieces, probs = answer.token_texts
        if pieces:
            pieces, probs = slice_pieces(0, len(fill), (start, *pieces), (1.0, *probs))
        return PartnerFill(fill, is_complete, answer.tokens, (pieces, probs))

    def _truncated_fill(self, answer: StreamedFill) -> PartnerFill:
        """The usable part of a truncated text: up to its last whole line, or all of a single line.

        Whole lines count as complete if the server ran out of room, unless the text replaces another.
        """
        text = answer.text.rstrip("\ufffd")
        is_whole = False
        if not answer.question.single_line and "\n" in text.strip("\n"):
            is_rewritten = query.is_rewrite(self._run.holes[len(self.fills)])
            is_whole = answer.end == "length" and not is_rewritten
            text = text.rpartition("\n")[0]
        return self._fill(answer, text, is_complete=is_whole)


def _is_too_long(error: ServerError) -> bool:
    message = str(error).lower()
    return error.status in (400, 413, 422, 500) and any(wording in message for wording in _TOO_LONG)


class PartnerRun(RemoteRun):
    """The work on one request, with concurrent candidates.

    In its statistics, `canvases` counts requests and `steps` tokens; `encode_ms` is the time to the first text.
    """

    def __init__(self, partner: "PartnerBackend", job: Job) -> None:
        super().__init__(partner, job)
        self.holes = self._parts.holes
        self.partner = partner
        self.slots = asyncio.Semaphore(_MAX_CONCURRENT)
        self.wakeup = asyncio.Event()
        """Set when a candidate has more text, or has ended."""
        self._api = partner.api
        count = 1 if self.request.quick else min(max(1, self.request.candidates), MAX_CANDIDATES)
        self._in_progress = [CandidateInProgress(self, index) for index in range(count)]
        self._last_draft_s = 0.0

    def request_fill(
        self, hole_index: int, fills: list[PartnerFill], windows: PartnerContextWindow, *, candidate: int
    ) -> StreamedFill:
        """Requests the fill of a hole, given the fills of earlier holes; later holes are empty."""
        hole = self.holes[hole_index]
        texts = self._parts.texts
        request = self.request
        text_before = "".join(text + fill.text for text, fill in zip(texts, fills, strict=False)) + texts[hole_index]
        draft = hole.text if self._api.sees_drafts and query.is_rewrite(hole) else ""
        max_new_tokens = query.max_new_tokens(hole)
        reserved_tokens = max_new_tokens + estimate_tokens(draft) + estimate_tokens(request.instruction)
        text_after = "".join(texts[hole_index + 1 :])
        if self._api.kind != "chat":  # its message names the file
            text_before = query.prepend_name_comment(request.name_comment, text_before)
        prefix, suffix = windows.crop(
            text_before + hole.starts_with, text_after, reserved_tokens, self._api.control_tokens
        )
        used_tokens = reserved_tokens + estimate_tokens(prefix) + estimate_tokens(suffix)
        question_for_hole = InfillQuery(
            prefix,
            suffix,
            hole.single_line,
            max_new_tokens,
            path=request.path,
            language=request.language,
            context=windows.fit_snippets(request.context, used_tokens) if self._api.context_tokens else (),
            instruction=request.instruction,
            draft=draft,
            temperature=_ALTERNATIVE_TEMPERATURE if candidate else 0.0,
            seed=request.seed if request.seed is None else request.seed + candidate,
        )
        self.counters.canvases += 1
        return StreamedFill(self._server.client, self._api, question_for_hole, self.job.deadline)

    async def events(self) -> AsyncGenerator[JobEvent, None]:
        """Drafts if requested, then the candidates, best first. Raises ServerError if none could be written."""
        try:
            for item in () if self.job.deadline.is_past else self._in_progress:
                item.start()
            while any(item.is_running for item in self._in_progress):
                await self.wakeup.wait()
                self.wakeup.clear()
                if self.request.drafts and (draft := self._draft()):
                    yield draft
            errors = [item.error for item in self._in_progress if item.error]
            if len(errors) == len(self._in_progress):
                raise errors[0]
            for candidate in self._candidates():
                yield candidate
            yield self._done()
        finally:
            if stopping := [task for item in self._in_progress for task in item.stop()]:
                await asyncio.wait(stopping)

    def _candidates(self) -> list[FilledHoles]:
        """The distinct candidates, the likeliest first; those that are cut or have an empty hole come last."""
        distinct: dict[tuple[str, ...], FilledHoles] = {}
        for item in self._in_progress:
            candidate = None if item.error else item.candidate()
            flaws = (results.adds_broken_character, results.adds_repetition)
            if candidate and not any(any(map(flaw, candidate.texts, self.holes)) for flaw in flaws):
                distinct.setdefault(candidate.texts, candidate)
        ranked = [*list(distinct.values())[:1], *sorted(list(distinct.values())[1:], key=lambda item: -item.score)]
        return sorted(ranked, key=lambda item: (not item.complete, not all(item.texts)))

    def _draft(self) -> Draft | None:
        """The first candidate's current state; None if nothing is new."""
        now_s = time.monotonic()
        fills = self._in_progress[0].fills_so_far()
        if now_s < self._last_draft_s + _DRAFT_INTERVAL_S or not any(fill.text for fill in fills):
            return None
        self._last_draft_s = now_s
        max_tokens = sum(map(query.max_new_tokens, self.holes))
        parts = {
            index: fill.token_texts if fill.token_texts[0] else ((fill.text,), (1.0,))
            for index, fill in enumerate(fills)
        }
        num_tokens = min(max_tokens, sum(fill.tokens for fill in fills))
        return results.build_draft(self.request.id, num_tokens, max_tokens, parts, len(self.holes))


class PartnerBackend(RemoteBackend):
    """An autoregressive model on a server."""

    model_setting = "partner.model"
    expected = "a server of models"
    handshake_s = 120.0
    """It may load its model for the first probe."""

    async def _probe(self) -> None:
        model = await self._served_model()
        props: _Props | None = None
        with suppress(AnswerError, ServerError):  # llama.cpp alone describes itself
            props = decode_json(await self.client.fetch("/props"), _Props)
        api = await self._probe_apis(model.id, is_llama=props is not None)
        name = server_backend.clip_name(model.id) or "a model without a name"
        if self.model and (name, api.kind) != (self.model, self.partner):
            log.info("another server answers at %s: it serves %s", self.client.url, name)
        limit = model.max_model_len or (props.default_generation_settings.n_ctx if props else None)
        self.context_window = PartnerContextWindow(limit)
        self.api = api
        self.model = name
        self.partner = api.kind
        self.sees_drafts = api.sees_drafts
        self.context_tokens = api.context_tokens

    def replies(self, job: Job) -> AsyncGenerator[JobEvent, None]:
        return PartnerRun(self, job).events()

    def adopt_context_window(self, window: PartnerContextWindow) -> None:
        """The server accepted these after refusing larger ones, so use them from now on."""
        if window.context_length == self.context_window.context_length and window.share < self.context_window.share:
            self.context_window = window

    async def _served_model(self) -> ServedModel:
        """The requested model, or the only one. Without a list of models, the requested one, perhaps unnamed."""
        try:
            return await self.listed_model()
        except ServerError as error:
            if error.status not in (404, 405):
                raise
            return ServedModel(self._arguments.server_model or "")

    async def _apis_to_try(self, model: str, *, is_llama: bool) -> list[str]:
        """The APIs that are worth a try, best first."""
        kind = self._arguments.partner or "auto"
        if kind != "auto":
            return [kind]
        named = [*filter(None, [fim_tokens.guess_fim_kind(model)])]
        if is_llama:
            return ["infill", *named, "suffix", "chat"]
        with suppress(ServerError):  # Ollama puts a prompt into the model's own template: tokens in it do harm there
            if b"version" in await self.client.fetch("/api/version"):
                return ["suffix", "chat"]
        return [*named, "suffix", "chat"]

    async def _probe_apis(self, model: str, *, is_llama: bool) -> SuffixCompletionApi:
        """The first API that works. Raises ModelError, which lists the answer to each attempt, and ServerError."""
        refused: list[str] = []
        kinds = await self._apis_to_try(model, is_llama=is_llama)
        for kind in kinds:
            for extended in (True, False):
                api = apis.api_for_kind(kind, model, extended=extended)
                try:
                    await StreamedFill(self.client, api, _PROBE_QUERY, None).receive(lambda: None)
                except TimeoutError:
                    reason = f"the server {self.client.url} did not end its answer"
                except ServerError as error:
                    if error.status and error.status not in _UNSUPPORTED_STATUSES:
                        raise
                    reason = str(error)
                else:
                    return api
            refused.append(f"{kind} ({api.path}): {reason}")
        problem = f"it fills no hole when asked by `{kinds[0]}`" if len(kinds) == 1 else "it fills no hole"
        raise ModelError(
            f"{self.client.url} has {server_backend.clip_name(model)}, but {problem}: {'; '.join(refused)[:1500]}; set "
            "partner.kind to what it supports"
        )

"""Asks a server's edit model, by /v1/completions, to rewrite the lines around the cursor: llama.cpp, vLLM and alike."""

import math
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated

import msgspec
from msgspec import Meta

from inference.engine.errors import RequestError
from inference.messages import Done, Edit, EditKind, InfillRequest, NextEditRequest, NextEdits, Outcome
from inference.models import edit_prompts
from inference.models.edit_prompts import EditPrompt
from inference.models.family import ModelError, OnProgress
from inference.remote import http, served
from inference.remote.address import EDITS
from inference.remote.http import AnswerError, Client, ServerError
from inference.remote.served import HANDSHAKE_S, ServedInfiller
from inference.serving.startup import WorkerArguments

FILLS_NOTHING = "this is an edit model, which fills no holes; name another as `model`"
RemoteEvent = NextEdits | Done
_CHARACTERS_PER_TOKEN = 2
_MORE_TOKENS = 256
"""How many tokens a rewrite may have: those of its region at least, and some more."""


class _Choice(msgspec.Struct, frozen=True):
    text: Annotated[str, Meta(max_length=200_000)]
    finish_reason: str | None = None


class _Completion(msgspec.Struct, frozen=True):
    choices: Annotated[list[_Choice], Meta(min_length=1)]


async def connect(arguments: WorkerArguments, on_progress: OnProgress, *, token: str = "") -> "ServedEditModel":
    """The edit model of the server that `arguments.model` names. Raises ModelError."""
    async with served.connecting(arguments, EDITS, token=token, limit_s=HANDSHAKE_S) as client:
        on_progress(0.1, f"asking {client.at.place}")
        model, kind = await _look(client, arguments.edits or "auto")
    return ServedEditModel(client, arguments, model, kind)


async def _look(client: Client, kind: EditKind) -> tuple[str, EditKind]:
    """The name of the server's only model, and its kind. Raises ModelError."""
    try:
        model = served.chosen(await http.models(client), None, client.url, EDITS.url)
    except (AnswerError, ServerError) as error:
        raise ModelError(f"{client.url} does not say which model it serves: {error}") from error
    found = edit_prompts.kind_of(kind, model.id)
    if found is None:
        raise ModelError(f"{client.url} serves {served.shown(model.id)}; say how to ask it with nextEdit.kind")
    return model.id, found


class ServedEditModel(ServedInfiller):
    """An edit model on a server."""

    context_tokens = 0

    def __init__(self, client: Client, arguments: WorkerArguments, model: str, kind: EditKind) -> None:
        super().__init__(client, arguments)
        self.model = model
        self._kind = kind

    def _fill(self, request: InfillRequest, deadline: float | None) -> "Rewriting":
        raise RequestError(FILLS_NOTHING)

    def _next_edits(self, request: NextEditRequest, deadline: float | None) -> "Rewriting":
        """Rewrites the lines around the request's cursor."""
        return Rewriting(self._rewrite(request, deadline))

    async def _rewrite(self, request: NextEditRequest, deadline: float | None) -> AsyncGenerator[RemoteEvent, None]:
        """Raises ServerError."""
        prompt = edit_prompts.prompt_for(self._kind, request)
        outcome = Outcome.COMPLETE
        try:
            new = "" if prompt is None else prompt.rewritten(await self._answer(prompt, deadline))
        except TimeoutError:
            prompt = None
            outcome = Outcome.DEADLINE
        if prompt is not None and new != prompt.now:
            yield NextEdits(request.id, (Edit(prompt.start, prompt.start + len(prompt.now), new),))
        else:
            yield NextEdits(request.id)
        yield Done(request.id, outcome)

    async def _answer(self, prompt: EditPrompt, deadline: float | None) -> str:
        """The model's whole answer; empty if it had no room for one. Raises ServerError and TimeoutError."""
        asked = {
            "model": self.model,
            "prompt": prompt.text,
            "stop": prompt.ends,
            "max_tokens": math.ceil(len(prompt.now) / _CHARACTERS_PER_TOKEN) + _MORE_TOKENS,
            "temperature": 0,
        }
        try:
            body = await self.client.post("/v1/completions", msgspec.json.encode(asked), deadline)
            choice = http.decoded(body, _Completion).choices[0]
        except AnswerError as error:
            raise ServerError(f"the server {self.client.url} sent an invalid answer: {error}") from error
        return choice.text if choice.finish_reason != "length" else ""

    async def _look_again(self) -> None:
        self.model, self._kind = await _look(self.client, self._arguments.edits or "auto")


class Rewriting:
    """The work on one request (`serving.jobs.Work`): the rewrite, then Done."""

    def __init__(self, events: AsyncGenerator[RemoteEvent, None]) -> None:
        self._events = events

    def __aiter__(self) -> AsyncIterator[RemoteEvent]:
        return self._events

    def amend(self, hole: int, text: str) -> None:
        """Raises RequestError."""
        raise RequestError(FILLS_NOTHING)

    async def aclose(self) -> None:
        await self._events.aclose()

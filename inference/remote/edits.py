"""Asks a server's edit model, by /v1/completions, to rewrite the lines around the cursor: llama.cpp, vLLM and alike."""

import math
from collections.abc import AsyncGenerator
from typing import Annotated

import msgspec
from msgspec import Meta

from inference.engine.errors import RequestError
from inference.messages import Done, Edit, InfillRequest, NextEditRequest, NextEdits, Outcome, Request
from inference.models import edit_prompts
from inference.models.edit_prompts import EditPrompt
from inference.models.family import ModelError
from inference.remote import http, served
from inference.remote.address import EDITS
from inference.remote.http import AnswerError, ServerError
from inference.remote.served import ServedInfiller
from inference.serving.jobs import JobEvent, Work

FILLS_NOTHING = "this is an edit model, which fills no holes; name another as `model`"
_CHARACTERS_PER_TOKEN = 2
_MORE_TOKENS = 256
"""How many tokens a rewrite may have: those of its region at least, and some more."""


class _Token(msgspec.Struct, frozen=True):
    token: str
    logprob: float


class _Logprobs(msgspec.Struct, frozen=True):
    """llama.cpp lists `content`, vLLM the other two."""

    content: list[_Token] = []
    tokens: list[str] = []
    token_logprobs: list[float | None] = []

    @property
    def pieces(self) -> list[tuple[bytes, float]]:
        """The tokens with their probabilities."""
        found = [(each.token, each.logprob) for each in self.content] or zip(
            self.tokens, self.token_logprobs, strict=False
        )
        return [(token.encode(errors="replace"), math.exp(min(0.0, chance or 0.0))) for token, chance in found]


class _Choice(msgspec.Struct, frozen=True):
    text: Annotated[str, Meta(max_length=200_000)]
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Completion(msgspec.Struct, frozen=True):
    choices: Annotated[list[_Choice], Meta(min_length=1)]


class ServedEditModel(ServedInfiller):
    role = EDITS

    async def look(self) -> None:
        """Finds out the name of the server's only model, and its kind."""
        url = self.client.url
        try:
            model = served.chosen(await http.models(self.client), None, url, EDITS.url)
        except (AnswerError, ServerError) as error:
            raise ModelError(f"{url} does not say which model it serves: {error}") from error
        found = edit_prompts.kind_of(self._arguments.edits or "auto", model.id)
        if found is None:
            raise ModelError(f"{url}: {edit_prompts.unknown(served.shown(model.id))}")
        self.model = model.id
        self.edits = self._kind = found

    def infill(self, request: Request, *, deadline: float | None = None) -> Work:
        if isinstance(request, InfillRequest):
            raise RequestError(FILLS_NOTHING)
        return self._rewrite(request, deadline)

    async def _rewrite(self, request: NextEditRequest, deadline: float | None) -> AsyncGenerator[JobEvent, None]:
        """Raises ServerError."""
        prompt = edit_prompts.prompt_for(self._kind, request)
        edits: tuple[Edit, ...] = ()
        outcome = Outcome.COMPLETE
        try:
            edits = () if prompt is None else await self._edits(prompt, deadline)
        except TimeoutError:
            outcome = Outcome.DEADLINE
        yield NextEdits(request.id, edits)
        yield Done(request.id, outcome)

    async def _edits(self, prompt: EditPrompt, deadline: float | None) -> tuple[Edit, ...]:
        """The model's rewrite; none if it had no room for a whole one. Raises ServerError and TimeoutError."""
        asked = {
            "model": self.model,
            "prompt": prompt.text,
            "stop": prompt.ends,
            "max_tokens": math.ceil(len(prompt.now) / _CHARACTERS_PER_TOKEN) + _MORE_TOKENS,
            "temperature": 0,
            "logprobs": 1,
        }
        try:
            body = await self.client.post("/v1/completions", msgspec.json.encode(asked), deadline)
            choice = http.decoded(body, _Completion).choices[0]
        except AnswerError as error:
            raise ServerError(f"the server {self.client.url} sent an invalid answer: {error}") from error
        if choice.finish_reason == "length":
            return ()
        return prompt.edits(choice.text, prompt.sure(choice.logprobs.pieces if choice.logprobs else ()))

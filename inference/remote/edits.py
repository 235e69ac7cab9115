"""Asks a server's edit model, by /v1/completions, to rewrite the lines around the cursor: llama.cpp, vLLM and alike."""

import math
from collections.abc import AsyncGenerator
from typing import Annotated

import msgspec
from msgspec import Meta

from inference.engine.errors import FILLS_NOTHING, RequestError
from inference.messages import Done, Edit, InfillRequest, NextEditRequest, NextEdits, Outcome, Request
from inference.models import edit_prompts
from inference.models.edit_prompts import EditPrompt
from inference.models.family import ModelError
from inference.remote import http, served
from inference.remote.address import EDITS
from inference.remote.http import AnswerError, ServerError
from inference.remote.served import ServedInfiller
from inference.serving.jobs import JobEvent, Work

_REFUSED = (400, 422)
"""How a server answers that does not know of probabilities."""
_CHARACTERS_PER_TOKEN = 2
_MORE_TOKENS = 256
"""How many tokens a rewrite may have: those of its region at least, and some more."""


class _Token(msgspec.Struct, frozen=True):
    token: str | None = None
    logprob: float | None = None


class _Logprobs(msgspec.Struct, frozen=True):
    """llama.cpp lists `content`, vLLM the other two."""

    content: list[_Token] | None = None
    tokens: list[str | None] | None = None
    token_logprobs: list[float | None] | None = None

    @property
    def pieces(self) -> list[tuple[bytes, float]]:
        """The tokens with their probabilities; none unless all are told."""
        found = [(each.token, each.logprob) for each in self.content or ()]
        found = found or [*zip(self.tokens or (), self.token_logprobs or (), strict=False)]
        known = [(token, chance) for token, chance in found if token is not None and chance is not None]
        if len(known) < len(found):
            return []
        return [(token.encode(errors="replace"), math.exp(min(0.0, chance))) for token, chance in known]


class _Choice(msgspec.Struct, frozen=True):
    text: Annotated[str, Meta(max_length=200_000)]
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Completion(msgspec.Struct, frozen=True):
    choices: Annotated[list[_Choice], Meta(min_length=1)]


class ServedEditModel(ServedInfiller):
    role = EDITS
    _tells_chances = True

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
            **({"logprobs": 1} if self._tells_chances else {}),
        }
        try:
            body = await self.client.post("/v1/completions", msgspec.json.encode(asked), deadline)
            choice = http.decoded(body, _Completion).choices[0]
        except ServerError as error:
            if error.status not in _REFUSED or not self._tells_chances:
                raise
            self._tells_chances = False
            return await self._edits(prompt, deadline)
        except AnswerError as error:
            raise ServerError(f"the server {self.client.url} sent an invalid answer: {error}") from error
        if choice.finish_reason == "length":
            return ()
        return prompt.edits(choice.text, prompt.sure(choice.logprobs.pieces if choice.logprobs else ()))

"""Rewrites the lines around the cursor with an edit model on a server, by /v1/completions (llama.cpp, vLLM, others)."""

import math
from collections.abc import AsyncGenerator

from inference.deadline import Deadline
from inference.engine.errors import FILLS_NOTHING_MESSAGE, RequestError
from inference.messages import Done, InfillRequest, NextEdits, Outcome, ScoredEdit, estimate_tokens
from inference.models import edit_prompts
from inference.models.edit_prompts import EditPrompt
from inference.models.family import ModelError
from inference.remote import http, server_backend
from inference.remote.address import EDIT_MODEL_SERVER
from inference.remote.http import AnswerError, ServerError
from inference.remote.partner.apis import CompletionChoice, CompletionReply
from inference.remote.server_backend import RemoteBackend
from inference.serving.scheduler import Job, JobEvent

_UNSUPPORTED_STATUSES = (400, 422)
"""The HTTP statuses of servers that do not support log-probabilities."""
_EXTRA_TOKENS = 256
"""How many tokens a rewrite may have beyond those of its region."""
_MAX_ANSWER_CHARS = 200_000
"""A longer answer, in characters, is not a rewrite."""


class EditModelBackend(RemoteBackend):
    """An edit model on a server."""

    model_setting = EDIT_MODEL_SERVER.url
    expected = "a server of models"
    _gives_logprobs = True

    async def _probe(self) -> None:
        model = await self.listed_model()
        kind = edit_prompts.guess_kind(self._arguments.edits or "auto", model.id)
        if kind is None:
            raise ModelError(f"{self.client.url}: {edit_prompts.kind_advice(server_backend.clip_name(model.id))}")
        self.model = model.id
        self.edits = self._kind = kind

    async def replies(self, job: Job) -> AsyncGenerator[JobEvent, None]:
        request = job.request
        if isinstance(request, InfillRequest):
            raise RequestError(FILLS_NOTHING_MESSAGE)
        prompt = edit_prompts.edit_prompt_for(self._kind, request)
        edits: tuple[ScoredEdit, ...] = ()
        outcome = Outcome.COMPLETE
        try:
            edits = () if prompt is None else await self._rewrite(prompt, job.deadline)
        except TimeoutError:
            outcome = Outcome.DEADLINE
        yield NextEdits(request.id, edits)
        yield Done(request.id, outcome)

    async def _rewrite(self, prompt: EditPrompt, deadline: Deadline) -> tuple[ScoredEdit, ...]:
        """The edits of the model's rewrite; none if that was cut off. Raises ServerError and TimeoutError."""
        body_params = {
            "model": self.model,
            "prompt": prompt.text,
            "stop": prompt.stop_strings,
            "max_tokens": 2 * estimate_tokens(prompt.current) + _EXTRA_TOKENS,
            "temperature": 0,
            **({"logprobs": 1} if self._gives_logprobs else {}),
        }
        try:
            body = await self.client.fetch("/v1/completions", body_params, deadline)
        except ServerError as error:
            if error.status not in _UNSUPPORTED_STATUSES or not self._gives_logprobs:
                raise
            self._gives_logprobs = False
            return await self._rewrite(prompt, deadline)
        with self.client.blaming_server():
            choice = _choice(body)
        if choice.finish_reason == "length":
            return ()
        logprob_pairs = choice.logprobs.token_logprob_pairs if choice.logprobs else []
        usable_pairs = [
            (token, value) for token, value in logprob_pairs if isinstance(token, str) and value is not None
        ]
        token_probs = [(token.encode(errors="replace"), math.exp(min(0.0, value))) for token, value in usable_pairs]
        return prompt.parse_edits(
            choice.text or "", prompt.confidence(token_probs if len(token_probs) == len(logprob_pairs) else ())
        )


def _choice(body: bytes) -> CompletionChoice:
    """The only answer. Raises AnswerError."""
    choices = http.decode_json(body, CompletionReply).choices
    text = choices[0].text if choices else None
    if not choices or text is None or len(text) > _MAX_ANSWER_CHARS:
        raise AnswerError("it has no text, or one that is too long")
    return choices[0]

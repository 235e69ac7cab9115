"""Asks a server about canvases behind one prefix."""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import msgspec

from inference.engine.work import Counters
from inference.remote.answers import AnswerError
from inference.remote.client import Client
from inference.remote.pause import ServerError
from inference.remote.vllm import wire
from inference.remote.vllm.wire import CanvasAnswer, CompletionRequest, DiffusionArguments

_T = TypeVar("_T")
_LONG_PROMPT_TOKENS = 16_384
"""Build a request with a longer prompt in a thread: it takes some milliseconds."""
_LONG_ANSWER_BYTES = 32 << 10
"""Parse a longer answer in a thread."""


class CanvasReader:
    """The canvases behind one prefix, on one server. Several may be asked about concurrently."""

    def __init__(
        self,
        client: Client,
        model: str,
        prefix: Sequence[int],
        deadline: float | None,
        counters: Counters,
        vocabulary_size: int,
    ) -> None:
        self._client, self._model, self._prefix = client, model, tuple(prefix)
        self._vocabulary_size, self._deadline, self._counters = vocabulary_size, deadline, counters
        self._answered = False

    async def read(
        self, ids: Sequence[int], pinned: Collection[int], *, steps: int = 1, tokens: Sequence[int] = ()
    ) -> CanvasAnswer:
        """The state of a canvas after at most this many steps, and the likelihoods of its rows' tokens then.

        `pinned` are the numbers of the fixed rows. Names the likeliest tokens of each row; with `tokens`, at most
        128, these instead. Raises ServerError, and TimeoutError at the deadline.
        """
        xargs = DiffusionArguments(tuple(ids), tuple(sorted(pinned)), len(ids), steps, diffusion_read_only=True)
        request = CompletionRequest(self._model, self._prefix, len(ids), xargs)
        if tokens:
            request = CompletionRequest(self._model, self._prefix, len(ids), xargs, 1, tuple(tokens))
        began = time.monotonic()
        body = await _done(len(self._prefix) >= _LONG_PROMPT_TOKENS, msgspec.json.encode, request)
        try:
            said = await self._client.post("/v1/completions", body, self._deadline)
            answer = await _done(len(said) >= _LONG_ANSWER_BYTES, wire.canvas_answer, said, len(ids))
            self._check_tokens(answer, pinned)
        except AnswerError as error:
            raise ServerError(f"the server {self._client.url} answered what makes no sense: {error}") from error
        self._count(steps, answer, (time.monotonic() - began) * 1000)
        return answer

    def _check_tokens(self, answer: CanvasAnswer, pinned: Collection[int]) -> None:
        """Raises AnswerError if a row has a token outside the vocabulary. Skips pinned rows."""
        given = set(pinned)
        for number, id_ in enumerate(answer.ids):
            if id_ >= self._vocabulary_size and number not in given:
                raise AnswerError(f"token {id_} in row {number} is not in the vocabulary of {self._vocabulary_size}")

    def _count(self, steps: int, answer: CanvasAnswer, ms: float) -> None:
        self._counters.steps += steps
        if not self._answered:
            self._answered = True
            self._counters.encode_ms += ms
            self._counters.prefix_tokens += len(self._prefix)
            self._counters.reused_tokens += answer.cached_tokens or 0


async def _done(is_long: bool, work: Callable[..., _T], *given: Any) -> _T:
    """The result of some work, of long work from a thread."""
    return await asyncio.to_thread(work, *given) if is_long else work(*given)

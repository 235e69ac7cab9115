"""Requests to vLLM and its answers, as JSON: `POST /v1/completions`.

vLLM refuses a request for a diffusion model that has `seed`, `min_p`, `min_tokens`, `logit_bias`, `bad_words`,
`allowed_token_ids`, structured output or a temperature other than 1; `prompt_logprobs` and `echo` with `logprobs` end
its engine for everybody (seen in 0.32). Its defaults come from the served folder, so requests state all that matters.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from inference.remote.http import AnswerError, decoded

MOST_LOGPROBS = 20
"""The likeliest tokens of a row that one may request, by vLLM's own default (`--max-logprobs`)."""

_TOKEN = re.compile(r"token_id:(\d{1,9})")


def request(model: str, prompt: Sequence[int], rows: int, arguments: Mapping[str, object], **more: object) -> bytes:
    """A request for one canvas behind a prompt, both as token ids, that lists the likeliest tokens of each row.

    `arguments`, in `vllm_xargs`: the rows are `diffusion_seed_canvas`, and `diffusion_pinned` the numbers of those held
    to it. `diffusion_max_steps` is silently clamped to the server's. `diffusion_read_only`: it writes no keys and
    values, and answers at temperature 1. With `logprob_token_ids`, lists these and the likeliest one instead.
    """
    stated = {
        "model": model,
        "prompt": prompt,
        "max_tokens": rows,
        "vllm_xargs": arguments,
        "logprobs": MOST_LOGPROBS,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "n": 1,
        "stream": False,
        "return_tokens_as_token_ids": True,
        "return_token_ids": True,
    }
    return msgspec.json.encode(stated | more)


Count = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
"""A number of tokens, or the id of one."""
Share = Annotated[float, Meta(le=1e-3)]
"""A log-probability; rounding may lift it a little above 0."""


class _Logprobs(msgspec.Struct, frozen=True):
    top_logprobs: list[dict[str, Share] | None]


class _Choice(msgspec.Struct, frozen=True):
    token_ids: list[Count]
    logprobs: _Logprobs
    finish_reason: str | None = None


class _CachedTokens(msgspec.Struct, frozen=True):
    cached_tokens: Count | None = None


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: Count = 0
    prompt_tokens_details: _CachedTokens | None = None


class _Completion(msgspec.Struct, frozen=True):
    choices: Annotated[list[_Choice], Meta(min_length=1, max_length=1)]
    usage: _Usage | None = None


class CanvasAnswer(msgspec.Struct, frozen=True):
    """vLLM's token of each row, a guess even where one is pinned, and log-probabilities of some tokens of each.

    `cached_tokens` of the prompt came from its prefix cache, None if unknown.
    """

    ids: list[int]
    log_probabilities: list[dict[int, float]]
    cached_tokens: int | None = None


def canvas_answer(body: bytes, rows: int) -> CanvasAnswer:
    """The answer for a canvas with this many rows. Raises AnswerError."""
    answer = decoded(body, _Completion)
    choice = answer.choices[0]
    found = [_by_token(row) for row in choice.logprobs.top_logprobs]
    if len(choice.token_ids) != rows or len(found) != rows:
        raise AnswerError(f"{len(choice.token_ids)} tokens and {len(found)} rows of probabilities for {rows} rows")
    details = answer.usage.prompt_tokens_details if answer.usage else None
    return CanvasAnswer(choice.token_ids, found, details.cached_tokens if details else None)


def _by_token(row: dict[str, float] | None) -> dict[int, float]:
    """Log-probabilities by token id, for the keys that vLLM writes as `token_id:N`."""
    found: dict[int, float] = {}
    for name, value in (row or {}).items():
        match = _TOKEN.fullmatch(name)
        if match is None:
            raise AnswerError(f"a token is called {name[:50]!r} and not by its id")
        found[int(match[1])] = value
    return found

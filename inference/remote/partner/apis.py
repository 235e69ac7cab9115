"""The APIs of servers that fill a hole: builds their requests, and parses their answers as untrusted input."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from inference.engine.fim import chat
from inference.engine.fim.chat import FillSpan
from inference.engine.fim.query import MAX_SNIPPET_TOKENS, InfillQuery
from inference.messages import BYTES_PER_TOKEN
from inference.models import fim_tokens
from inference.remote.http import AnswerError, clip_to_one_line, decode_json

_AROUND_CODE_TOKENS = 96
"""How many tokens may surround the code in a chat answer."""
_MAX_EVENT_BYTES = 1 << 20
"""llama.cpp's last event repeats the prompt."""


class ServerSentEvents:
    """The data of server-sent events, one line each, fed in parts as they arrive."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, part: bytes) -> list[bytes]:
        """The events completed by this part. Raises AnswerError if one is too long."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        if max(map(len, (*lines, self._rest))) > _MAX_EVENT_BYTES:
            raise AnswerError(f"an event has more than {_MAX_EVENT_BYTES} bytes")
        named = (line.rstrip(b"\r").partition(b":") for line in lines)
        # llama.cpp names the field `error` if it fails in mid-answer
        return [value.removeprefix(b" ") for name, _, value in named if name in (b"data", b"error")]


@dataclass(frozen=True)
class StreamDelta:
    """A part of a text. `probs` are the probabilities of its tokens, if known. `end` is "" as long as it continues.

    `end` is "stop" if the server says that the text is whole, otherwise "length": it was cut, filtered or aborted.
    """

    text: str
    probs: tuple[float, ...] = ()
    end: str = ""


class _Token(msgspec.Struct, frozen=True):
    token: Any = None
    logprob: float | None = None


class Logprobs(msgspec.Struct, frozen=True):
    """OpenAI's two formats: the first two fields are those of completions, `content` is that of chat and llama.cpp."""

    tokens: list[Any] | None = None
    token_logprobs: list[float | None] | None = None
    content: list[_Token] | None = None

    @property
    def token_logprob_pairs(self) -> list[tuple[Any, float | None]]:
        """The tokens, or whatever the server sent in their place, with their log-probabilities."""
        pairs = [(item.token, item.logprob) for item in self.content or ()]
        return pairs or [*zip(self.tokens or (), self.token_logprobs or (), strict=False)]


class _Message(msgspec.Struct, frozen=True):
    content: str | None = None


class CompletionChoice(msgspec.Struct, frozen=True):
    text: str | None = None
    delta: _Message | None = None
    logprobs: Logprobs | None = None
    finish_reason: str | None = None


class _Failure(msgspec.Struct, frozen=True):
    error: Any = None
    message: Any = None


class CompletionReply(_Failure, frozen=True):
    choices: list[CompletionChoice] | None = None


class _Infill(_Failure, frozen=True):
    content: str | None = None
    stop: bool = False
    stop_type: str = ""
    stopped_limit: bool = False
    completion_probabilities: list[_Token] | None = None


DONE = StreamDelta("", end="stop")
"""The last event of a complete stream; the reason for the end of its text may have come before."""

_WHOLE_REASONS = frozenset({"stop", "eos", "eos_token", "stop_sequence", "end_turn", "complete"})


class SuffixCompletionApi:
    """One way to ask for the fill of a hole: `/v1/completions` with a suffix, as the server knows the model's tokens.

    Code is cut at `control_tokens`. `extended`: also requests probabilities.
    """

    kind = "suffix"
    path = "/v1/completions"
    control_tokens: tuple[str, ...] = ()
    context_tokens = 0
    sees_drafts = False

    def __init__(self, model: str, *, extended: bool) -> None:
        self._model = model
        self._extended = extended

    def request_body(self, query: InfillQuery) -> dict[str, Any]:
        texts = {"prompt": query.prefix, "suffix": query.suffix}
        return {
            **texts,
            **self._common_params(query, _line_end(query)),
            **({"logprobs": 1} if self._extended else {}),
        }

    def parse_event(self, event: bytes) -> StreamDelta | None:
        """The content of an event; None if it has none. Raises AnswerError, including for an error from the server."""
        if event.strip() == b"[DONE]":
            return DONE
        reply = decode_json(event, CompletionReply)
        if reply.choices is None:
            raise _failure(reply)
        if not reply.choices:  # how many tokens it took
            return None
        first = reply.choices[0]
        text = first.text or (first.delta.content if first.delta else None) or ""
        probs = _probs([value for _, value in first.logprobs.token_logprob_pairs]) if first.logprobs else ()
        return StreamDelta(text, probs, _end_of_reason(first.finish_reason))

    def find_fill(self, answer: str, query: InfillQuery, *, ended: bool) -> FillSpan:
        """The fill in an answer: all of it, up to a control token or the end of the only line."""
        stops = [index for token in self.control_tokens if (index := answer.find(token)) >= 0]
        if query.single_line and answer:
            line = answer.splitlines()[0]
            stops += [len(line)] if len(line) < len(answer) else []
        return FillSpan(0, min(stops, default=len(answer)), bool(stops))

    def trim_fill(self, text: str, query: InfillQuery, *, ended: bool) -> str:
        """Cuts what repeats the hole's surroundings."""
        return text

    def _common_params(self, query: InfillQuery, stop: list[str]) -> dict[str, Any]:
        limits = {"model": self._model, "max_tokens": query.max_tokens, "temperature": query.temperature}
        params: dict[str, Any] = {**limits, "stream": True, **({"stop": stop} if stop else {})}
        return params if query.seed is None else {**params, "seed": query.seed}


class FimTokensApi(SuffixCompletionApi):
    """`/v1/completions` with a family's tokens. `extended`: also requests visible special tokens."""

    def __init__(self, kind: str, model: str, *, extended: bool) -> None:
        super().__init__(model, extended=extended)
        self.kind = kind
        self._tokens = fim_tokens.tokens_for_kind(kind, model)
        self.control_tokens = self._tokens.control_tokens
        self.context_tokens = MAX_SNIPPET_TOKENS if self._tokens.repository else 0

    def request_body(self, query: InfillQuery) -> dict[str, Any]:
        prompt = self._tokens.prompt(query.prefix, query.suffix, query.path, query.context)
        stop = [*self.control_tokens, *_line_end(query)]
        extras = {"logprobs": 1, "skip_special_tokens": False} if self._extended else {}
        return {"prompt": prompt, **self._common_params(query, stop if self._extended else stop[:4]), **extras}


class LlamaInfillApi(SuffixCompletionApi):
    """llama.cpp's `/infill`. It truncates prefix and suffix itself, and accepts other files."""

    kind = "infill"
    path = "/infill"
    context_tokens = MAX_SNIPPET_TOKENS

    def request_body(self, query: InfillQuery) -> dict[str, Any]:
        common = self._common_params(query, _line_end(query))
        common["n_predict"] = common.pop("max_tokens")
        extra = [{"filename": snippet.path, "text": snippet.text} for snippet in query.context]
        texts = {"input_prefix": query.prefix, "input_suffix": query.suffix, "input_extra": extra}
        return {**texts, **common, **({"n_probs": 1} if self._extended else {})}

    def parse_event(self, event: bytes) -> StreamDelta | None:
        if event.strip() == b"[DONE]":
            return DONE
        read = decode_json(event, _Infill)
        if read.content is None:
            raise _failure(read)
        values = [token.logprob for token in read.completion_probabilities or ()]
        end = "length" if read.stop_type == "limit" or read.stopped_limit else "stop"
        return StreamDelta(read.content, _probs(values), end if read.stop else "")


class ChatApi(SuffixCompletionApi):
    """`/v1/chat/completions`. `extended`: also requests no thinking, if the model allows that."""

    kind = "chat"
    path = "/v1/chat/completions"
    context_tokens = MAX_SNIPPET_TOKENS
    sees_drafts = True

    def request_body(self, query: InfillQuery) -> dict[str, Any]:
        common = self._common_params(query, [])
        common["max_tokens"] += _AROUND_CODE_TOKENS if query.max_tokens > 1 else 0
        extras = {"logprobs": True, "chat_template_kwargs": {"enable_thinking": False}} if self._extended else {}
        return {"messages": [{"role": "user", "content": chat.user_message(query)}], **common, **extras}

    def find_fill(self, answer: str, query: InfillQuery, *, ended: bool) -> FillSpan:
        """See the base class. Does not wait for anything after a single line."""
        block = chat.find_code_block(answer, ended=ended)
        is_whole = block.is_closed and ended
        if query.single_line:
            text = chat.partial_fill(answer[block.start : block.end], query.prefix)
            is_whole = "\n" in text.lstrip("\n")
        return FillSpan(block.start, block.end, is_whole)

    def trim_fill(self, text: str, query: InfillQuery, *, ended: bool) -> str:
        return chat.finished_fill(text, query) if ended else chat.partial_fill(text, query.prefix)


def api_for_kind(kind: str, model: str, *, extended: bool) -> SuffixCompletionApi:
    """The API of this `kind` (`inference.messages.PartnerKind`, but for `auto`)."""
    apis = {api.kind: api for api in (LlamaInfillApi, SuffixCompletionApi, ChatApi)}
    return apis[kind](model, extended=extended) if kind in apis else FimTokensApi(kind, model, extended=extended)


def _line_end(query: InfillQuery) -> list[str]:
    return ["\n"] if query.single_line else []


def max_answer_chars(query: InfillQuery) -> int:
    """An answer longer than this ignores `max_tokens`."""
    return (query.max_tokens + _AROUND_CODE_TOKENS) * BYTES_PER_TOKEN * 8


def _end_of_reason(reason: str | None) -> str:
    """The end of an answer: only "stop" if it is whole. One that was filtered or aborted cannot replace code."""
    return "" if not reason else "stop" if reason.lower() in _WHOLE_REASONS else "length"


def _probs(values: Sequence[float | None]) -> tuple[float, ...]:
    """Log-probabilities as probabilities; none if one of them is missing or invalid."""
    valid = [value for value in values if value is not None and not math.isnan(value) and value <= 1e-3]
    return tuple(min(1.0, math.exp(value)) for value in valid) if len(valid) == len(values) else ()


def _failure(reply: _Failure) -> AnswerError:
    message = reply.error if reply.error is not None else reply.message
    if isinstance(message, dict):
        message = message.get("message", "")
    return AnswerError(
        clip_to_one_line(message) if isinstance(message, str) and message else "an event has no text and no error"
    )

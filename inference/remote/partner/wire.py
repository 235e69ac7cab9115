"""Parses a server's stream as untrusted: its events, and the content of each interface's events."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from inference.remote.http import AnswerError, decoded, one_line

_LONGEST_EVENT_BYTES = 1 << 20
"""llama.cpp's last event repeats the prompt."""


class Events:
    """The data of server-sent events, one line each, fed in parts as they arrive."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, part: bytes) -> list[bytes]:
        """The events completed by this part. Raises AnswerError if one is too long."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        if max(map(len, (*lines, self._rest))) > _LONGEST_EVENT_BYTES:
            raise AnswerError(f"an event has more than {_LONGEST_EVENT_BYTES} bytes")
        named = (line.rstrip(b"\r").partition(b":") for line in lines)
        # llama.cpp names the field `error` if it fails in mid-answer
        return [value.removeprefix(b" ") for name, _, value in named if name in (b"data", b"error")]


@dataclass(frozen=True)
class Piece:
    """Some of a text. `sure` are the probabilities of its tokens, if known. `end` is "" as long as it continues.

    `end` is "stop" if the server says that the text is whole, otherwise "length": it was cut, filtered or aborted.
    """

    text: str
    sure: tuple[float, ...] = ()
    end: str = ""


class _Token(msgspec.Struct, frozen=True):
    logprob: float | None = None


class _Logprobs(msgspec.Struct, frozen=True):
    """OpenAI's two forms: `token_logprobs` of completions, `content` of conversations (and of llama.cpp)."""

    token_logprobs: list[float | None] | None = None
    content: list[_Token] | None = None

    @property
    def values(self) -> Sequence[float | None]:
        """The log-probability of each token."""
        return self.token_logprobs or [token.logprob for token in self.content or ()]


class _Message(msgspec.Struct, frozen=True):
    content: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    text: str | None = None
    delta: _Message | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Failure(msgspec.Struct, frozen=True):
    error: Any = None
    message: Any = None


class _Choices(_Failure, frozen=True):
    choices: list[_Choice] | None = None


class _Infill(_Failure, frozen=True):
    content: str | None = None
    stop: bool = False
    stop_type: str = ""
    stopped_limit: bool = False
    completion_probabilities: list[_Token] | None = None


ReadPiece = Callable[[bytes], Piece | None]
"""The content of an event; None if it has none. Raises AnswerError, including for an error from the server."""


DONE = Piece("", end="stop")
"""The last event of a complete stream; the reason for the end of its text may have come before."""

_WHOLE = frozenset({"stop", "eos", "eos_token", "stop_sequence", "end_turn", "complete"})
"""Reasons that mean a whole text."""


def choice(event: bytes) -> Piece | None:
    """An event of `/v1/completions` or `/v1/chat/completions`."""
    if event.strip() == b"[DONE]":
        return DONE
    read = decoded(event, _Choices)
    if read.choices is None:
        raise _failure(read)
    if not read.choices:  # how many tokens it took
        return None
    first = read.choices[0]
    text = first.text or (first.delta.content if first.delta else None) or ""
    sure = _sure(first.logprobs.values) if first.logprobs else ()
    return Piece(text, sure, _end(first.finish_reason))


def infill(event: bytes) -> Piece | None:
    """An event of llama.cpp's `/infill`."""
    if event.strip() == b"[DONE]":
        return DONE
    read = decoded(event, _Infill)
    if read.content is None:
        raise _failure(read)
    values = [token.logprob for token in read.completion_probabilities or ()]
    end = "length" if read.stop_type == "limit" or read.stopped_limit else "stop"
    return Piece(read.content, _sure(values), end if read.stop else "")


def _end(reason: str | None) -> str:
    """An answer that was filtered, aborted or ended for an unknown reason cannot replace code."""
    return "" if not reason else "stop" if reason.lower() in _WHOLE else "length"


def _sure(values: Sequence[float | None]) -> tuple[float, ...]:
    """Log-probabilities as probabilities; none if one of them is missing or invalid."""
    found = [value for value in values if value is not None and not math.isnan(value) and value <= 1e-3]
    return tuple(min(1.0, math.exp(value)) for value in found) if len(found) == len(values) else ()


def _failure(read: _Failure) -> AnswerError:
    said = read.error if read.error is not None else read.message
    if isinstance(said, dict):
        said = said.get("message", "")
    return AnswerError(one_line(said) if isinstance(said, str) and said else "an event has no text and no error")

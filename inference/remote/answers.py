"""Parses answers of servers of any kind as untrusted: JSON of known types, their models, their refusals.

Every server with an interface like OpenAI's has `GET /v1/models`, and explains a refusal in `error.message`.
"""

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

_T = TypeVar("_T")


class ServedModel(msgspec.Struct, frozen=True):
    """A model that a server lists. `root` is the folder or hub id that it was started with, on its own machine.

    `max_model_len` limits the tokens of prompt and answer; None: the server does not say.
    """

    id: Annotated[str, Meta(max_length=500)]
    root: Annotated[str, Meta(max_length=4096)] | None = None
    max_model_len: Annotated[int, Meta(ge=1, le=(1 << 31) - 1)] | None = None

    def __post_init__(self) -> None:
        """Raises ValueError if a name contains terminal control characters."""
        require_printable(self.id + (self.root or ""))


class _Models(msgspec.Struct, frozen=True):
    data: list[ServedModel]


class _ErrorBody(msgspec.Struct, frozen=True):
    message: str


class _Error(msgspec.Struct, frozen=True):
    error: _ErrorBody


class AnswerError(ValueError):
    """An answer makes no sense. str() says why."""


def models(body: bytes) -> list[ServedModel]:
    """The models that a server lists. Raises AnswerError."""
    return decoded(body, _Models).data


def error_message(body: bytes) -> str:
    """A server's error message, in at most 300 characters of one line; empty if it has none readable."""
    try:
        said = decoded(body, _Error).error.message
    except AnswerError:
        return ""
    return one_line(said)


def one_line(said: str) -> str:
    """At most 300 characters of it, without control characters, on one line."""
    return " ".join("".join(c if c.isprintable() else " " for c in said[:3000]).split())[:300]


def decoded(body: bytes, kind: type[_T]) -> _T:
    """A JSON text as a value of a type. Raises AnswerError if it is none."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AnswerError(f"{error}") from error


def require_printable(text: str) -> None:
    """Raises ValueError if a name contains a control character."""
    if not text.isprintable():
        raise ValueError("a name has a control character in it")

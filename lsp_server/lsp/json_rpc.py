"""Read JSON-RPC messages from bytes, strictly, and salvage what can be answered of those that are not JSON."""

import json
from typing import Any, TypeGuard

Id = int | str


def is_id(value: Any) -> TypeGuard[Id]:
    """Whether this is the id of a request; only Python takes True and False for numbers."""
    return isinstance(value, int | str) and not isinstance(value, bool)


def messages_in(body: bytes) -> list[Any]:
    """The message in `body`, or the messages of a batch. Raises ValueError, RecursionError where it is not JSON."""
    return _unbatched(_DECODER.decode(body.decode("utf-8", "surrogatepass")))


def salvaged_from(body: bytes) -> list[dict[str, Any]]:
    """The messages in a `body` that is not JSON, at least one; empty where they cannot be read at all.

    Where only a few bytes are wrong, or a number is none, a message may still say who waits for an answer.
    """
    try:
        found = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        found = None
    return [message if isinstance(message, dict) else {} for message in _unbatched(found)]


def _unbatched(message: Any) -> list[Any]:
    return message if isinstance(message, list) and message else [message]


def _refuse_constant(name: str) -> None:
    """Python would read NaN and Infinity, and write them back, which no client could read."""
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)

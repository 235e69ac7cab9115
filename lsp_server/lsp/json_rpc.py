"""Read JSON-RPC messages from bytes, strictly, and tell requests, notifications and answers apart."""

import json
import math
from typing import Any, TypeGuard

Id = int | float | str
MAX_DEPTH = 100
"""No editor nests its params deeper; Python's own limit would be met later, at any place of the program."""
TOO_DEEP = f"nested more than {MAX_DEPTH} deep"


def is_id(value: Any) -> TypeGuard[Id]:
    """Whether this is the id of a request; only Python takes True and False for numbers."""
    return isinstance(value, int | str | float) and not isinstance(value, bool) and not _is_endless(value)


def is_notification(message: Any) -> bool:
    """Whether nobody waits for an answer to it."""
    return isinstance(message, dict) and message.get("id") is None and isinstance(message.get("method"), str)


def is_response(message: Any) -> bool:
    """Whether it answers a request of ours."""
    return isinstance(message, dict) and "method" not in message and ("result" in message or "error" in message)


def messages_in(body: bytes) -> list[Any]:
    """The message in `body`, or the messages of a batch. Raises ValueError, RecursionError where it is not JSON."""
    text = body.decode("utf-8", "surrogatepass").removeprefix("\ufeff")
    try:
        return unbatched(_DECODER.decode(text))
    except json.JSONDecodeError:
        raise
    except ValueError:
        return unbatched(LONG_NUMBERS.decode(text))


def excess_in(message: Any) -> str | None:
    """What is too much in a message, which must not be handed on; None where nothing is."""
    containers = [message] if isinstance(message, dict | list) else []
    for _ in range(MAX_DEPTH):
        children = [child for one in containers for child in (one.values() if isinstance(one, dict) else one)]
        if any(map(_is_endless, children)):
            return "a number is too large"
        containers = [child for child in children if isinstance(child, dict | list)]
    return TOO_DEEP if containers else None


def unbatched(message: Any) -> list[Any]:
    """The messages of a batch; any other message by itself."""
    return message if isinstance(message, list) and message else [message]


def _is_endless(value: Any) -> bool:
    """Whether it is a number that is beyond all that JSON can write back."""
    return isinstance(value, float) and not math.isfinite(value)


def _whole(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:  # more digits than Python reads
        return math.inf


def _refuse_constant(name: str) -> None:
    """Python would read NaN and Infinity, and write them back, which no client could read."""
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
LONG_NUMBERS = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_whole)
"""Takes a number of thousands of digits for infinite; slower."""

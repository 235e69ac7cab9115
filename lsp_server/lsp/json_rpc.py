"""Parses JSON-RPC messages strictly, classifies them, and finds the sender of an unreadable one."""

import json
import math
import re
from itertools import islice
from typing import Any, TypeGuard

Id = int | float | str
MAX_DEPTH = 100
"""No editor nests its params deeper. Python's own limit would strike later, anywhere in the program."""
TOO_DEEP = f"nested more than {MAX_DEPTH} deep"
_KEPT_LEVELS = 8
_MAX_WORDS = 250_000
"""The server may search an unacceptable message for its id for a quarter of a second."""
_NOTHING: Any = object()
_WORD = re.compile(r'[\[\]{},:]|"[^"\\]*+(?:\\.[^"\\]*+)*+"|"|[^\s\[\]{},:"]+', re.DOTALL)
"""A JSON token; a lone quotation mark is an unterminated string."""


def is_id(value: Any) -> TypeGuard[Id]:
    """Whether this is a request id; only Python treats True and False as numbers."""
    return isinstance(value, int | str | float) and not isinstance(value, bool) and not _is_endless(value)


def is_notification(message: Any) -> bool:
    """Whether it expects no answer."""
    return isinstance(message, dict) and message.get("id") is None and isinstance(message.get("method"), str)


def is_response(message: Any) -> bool:
    """Whether it answers one of our requests."""
    return isinstance(message, dict) and "method" not in message and ("result" in message or "error" in message)


def messages_in(body: bytes) -> list[Any]:
    """The message in `body`, or the messages of a batch. Raises ValueError or RecursionError if it is not JSON."""
    text = body.decode("utf-8", "surrogatepass").removeprefix("\ufeff")
    try:
        return unbatched(_DECODER.decode(text))
    except json.JSONDecodeError:
        raise
    except ValueError:
        return unbatched(LONG_NUMBERS.decode(text))


def excess_in(message: Any) -> str | None:
    """Which limit a message exceeds, so that it must not be passed on; None if it exceeds none."""
    containers = [message] if isinstance(message, dict | list) else []
    for _ in range(MAX_DEPTH):
        children = [child for one in containers for child in (one.values() if isinstance(one, dict) else one)]
        if any(map(_is_endless, children)):
            return "a number is too large"
        containers = [child for child in children if isinstance(child, dict | list)]
    return TOO_DEEP if containers else None


def unbatched(message: Any) -> list[Any]:
    """The messages of a batch; any other message alone."""
    return message if isinstance(message, list) and message else [message]


def _is_endless(value: Any) -> bool:
    """Whether it is a number too large to write back as JSON."""
    return isinstance(value, float) and not math.isfinite(value)


def _whole(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:  # more digits than Python reads
        return math.inf


def _refuse_constant(name: str) -> None:
    """Python would read NaN and Infinity and write them back, which no client could read."""
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
LONG_NUMBERS = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_whole)
"""Treats a number of thousands of digits as infinite; slower."""


def salvaged(body: bytes) -> list[dict[str, Any]]:
    """The outer levels of the messages in an unreadable `body`, which may still show who waits for an answer."""
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    return [message if isinstance(message, dict) else {} for message in unbatched(_outline(text))]


def _outline(text: str) -> Any:
    """The value in a text that is nearly JSON, as far as it can be parsed; None if not at all."""
    found: list[Any] = []
    opened: list[Any] = [found]
    key = value = _NOTHING
    for match in islice(_WORD.finditer(text), _MAX_WORDS):
        word = match[0]
        if word in ("{", "["):
            child: Any = {} if word == "{" else []
            _put(opened[-1] if len(opened) <= _KEPT_LEVELS else None, key, child)
            opened.append(child)
            key = value = _NOTHING
        elif word in ("}", "]", ","):
            _put(opened[-1], key, value)
            key = value = _NOTHING
            if word != ",":
                opened.pop()
            if len(opened) <= 1:
                break
        elif word == ":":
            key, value = value, _NOTHING
        elif word == '"':
            break
        else:
            value = _scalar(word)
    return found[0] if found else None


def _put(container: Any, key: Any, value: Any) -> None:
    if value is _NOTHING:
        return
    if isinstance(container, list):
        container.append(value)
    elif isinstance(container, dict) and isinstance(key, str):
        container[key] = value


def _scalar(word: str) -> Any:
    try:
        return LONG_NUMBERS.decode(word)
    except ValueError:
        return None

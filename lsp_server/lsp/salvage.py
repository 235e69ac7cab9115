"""Find out who sent a message that cannot be read, so that whoever waits for the answer gets one."""

import re
from itertools import islice
from typing import Any

from lsp_server.lsp.json_rpc import LONG_NUMBERS, unbatched

_KEPT_LEVELS = 8
_MAX_WORDS = 250_000
"""A quarter of a second: so long may the server look for the id in a message that it cannot take."""
_NOTHING: Any = object()
_WORD = re.compile(r'[\[\]{},:]|"[^"\\]*+(?:\\.[^"\\]*+)*+"|"|[^\s\[\]{},:"]+', re.DOTALL)
"""A word of JSON; a quotation mark by itself is a string without its end."""


def salvaged_from(body: bytes) -> list[dict[str, Any]]:
    """The outer levels of the messages in a `body` that could not be read; at least one, which may be empty.

    Where a part is wrong, missing or nested too deep, the rest may still say who waits for an answer.
    """
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    return [message if isinstance(message, dict) else {} for message in unbatched(_outline(text))]


def _outline(text: str) -> Any:
    """The value in a text that is nearly JSON, as far as it can be read; None where nothing can."""
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

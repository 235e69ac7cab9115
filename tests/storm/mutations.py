"""Messages that are nearly right: known methods whose params had one part replaced, left out or spoiled."""

import json
import random
from typing import Any

from tests.lsp_server.lsp.wild_messages import VALID

JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**64,
    1.5,
    "",
    "a",
    "\ud800",
    [],
    {},
    [[]],
    {"a": None},
    ["x"] * 50,
    "/" * 9,
)
METHODS = sorted(set(VALID) - {"initialize"})


def mutated(chance: random.Random, key: int) -> bytes:
    """One message with the id `key`, or with none, or one that is no message at all."""
    method = chance.choice(METHODS)
    params = VALID[method]
    for _ in range(chance.randrange(3)):
        params = _bent(chance, params)
    message: Any = {"jsonrpc": "2.0", "id": key, "method": method, "params": params}
    if chance.random() < 0.2:
        del message["id"]
    if chance.random() < 0.1:
        message = [message]
    body = json.dumps(message).encode()
    if chance.random() < 0.1:
        at = chance.randrange(len(body))
        body = body[:at] + bytes([chance.randrange(256)]) + body[at + 1 :]
    return body


def _bent(chance: random.Random, value: Any) -> Any:
    if not (isinstance(value, dict | list) and value) or chance.random() < 0.2:
        return chance.choice(JUNK)
    copy = value.copy()
    key = chance.choice(sorted(copy) if isinstance(copy, dict) else range(len(copy)))
    if chance.random() < 0.25:
        del copy[key]
    else:
        copy[key] = _bent(chance, copy[key])
    return copy

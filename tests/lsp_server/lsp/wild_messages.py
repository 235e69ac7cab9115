"""Generated JSON-RPC: nearly right, wrong in every part, or no messages at all; and the replies due to each."""

import codecs
import json
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from lsp_server.lsp.protocol import salvage_request_id

URI = "file:///project/a.py"
PLACE = {"line": 0, "character": 4}
RANGE = {"start": PLACE, "end": PLACE}
DOCUMENT = {"uri": URI}
CELL = {"kind": 2, "document": "cell:1"}
VALID: dict[str, Any] = {
    "textDocument/didOpen": {"textDocument": {"uri": URI, "languageId": "python", "version": 1, "text": "x = ???\n"}},
    "textDocument/didChange": {
        "textDocument": {"uri": URI, "version": 2},
        "contentChanges": [{"range": RANGE, "text": "y"}, {"text": "x = ???\n"}],
    },
    "textDocument/didClose": {"textDocument": DOCUMENT},
    "notebookDocument/didOpen": {
        "notebookDocument": {"uri": "file:///n.ipynb", "notebookType": "jupyter", "version": 1, "cells": [CELL]},
        "cellTextDocuments": [{"uri": "cell:1", "languageId": "python", "version": 1, "text": "x = ???\n"}],
    },
    "notebookDocument/didChange": {
        "notebookDocument": {"uri": "file:///n.ipynb", "version": 2},
        "change": {"cells": {"structure": {"array": {"start": 0, "deleteCount": 1, "cells": [CELL]}}}},
    },
    "textDocument/codeAction": {"textDocument": DOCUMENT, "range": RANGE, "context": {"diagnostics": []}},
    "codeAction/resolve": {"title": "Fill", "kind": "refactor.rewrite.infill", "data": {"uri": URI, "version": 1}},
    "textDocument/inlineCompletion": {"textDocument": DOCUMENT, "position": PLACE, "context": {"triggerKind": 2}},
    "textDocument/completion": {"textDocument": DOCUMENT, "position": PLACE},
    "workspace/executeCommand": {"command": "infill-ls.fillHole", "arguments": [{"uri": "file:///no", "range": RANGE}]},
    "workspace/didChangeConfiguration": {"settings": {"infill-ls": {"maxSteps": 1}}},
    "infill/status": {"textDocument": DOCUMENT},
    "infill/modelOffer": {},
    "infill/didAccept": {"textDocument": DOCUMENT, "id": "1", "acceptedLength": 1},
    "infill/didRest": {"textDocument": DOCUMENT, "position": {"line": 0, "character": 0}},
    "textDocument/copilotInlineEdit": {"textDocument": {"uri": URI, "version": 2}, "position": PLACE},
    "textDocument/didShowInlineEdit": {"item": {"command": {"arguments": ["next-1", URI]}}},
    "initialize": {"capabilities": {}},
    "$/cancelRequest": {"id": 1},
    "no/such": {"a": 1},
}
"""Right params for methods; neither `shutdown` nor `exit`, after which nothing more would be tried."""

JUNK: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**64, 2**70, 1.5, "", "a", "\ud800", "é" * 5, "/" * 9),
    *([], {}, [[]], {"a": None}, ["x"] * 50),
)


def bent(chance: Random, value: Any) -> Any:
    """`value` with one part of it, anywhere, replaced or left out."""
    if not (isinstance(value, dict | list) and value) or chance.random() < 0.2:
        return chance.choice(JUNK)
    copy = value.copy()
    key = chance.choice(sorted(copy) if isinstance(copy, dict) else range(len(copy)))
    if chance.random() < 0.25:
        del copy[key]
    else:
        copy[key] = bent(chance, copy[key])
    return copy


def message(chance: Random) -> Any:
    """One message: usually a known method with params that are right or bent, and an id that may be taken."""
    method = chance.choice(sorted(VALID))
    params = VALID[method]
    for _ in range(chance.randrange(3)):
        params = bent(chance, params)
    made: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    if chance.random() < 0.8:
        made["id"] = chance.choice([chance.randrange(4), chance.choice(JUNK)])
    return bent(chance, made) if chance.random() < 0.2 else made


def body(chance: Random) -> bytes:
    """A message or several, or what is none, or hardly one."""
    one = json.dumps(message(chance)).encode()
    match chance.randrange(14):
        case 0:
            return json.dumps([message(chance) for _ in range(chance.randrange(5))]).encode()
        case 1:
            return chance.randbytes(chance.randrange(20))
        case 2:
            return "".join(chance.choices('{}[],:"1a\\', k=chance.randrange(20))).encode()
        case 3:
            return one[:-7]
        case 4:
            return one.replace(b"python", b"\xffpython")
        case 5:
            at = chance.randrange(len(one))
            return one[:at] + chance.randbytes(1) + one[at + 1 :]
        case 6:
            return codecs.BOM_UTF8 + one
        case 7:
            depth = chance.choice([chance.randrange(1, 200), chance.randrange(5_000, 9_000)])
            deep = b"[" * depth + b"]" * depth
            return b'{"id": 2, "method": "no/such", "params": %b}' % deep
        case 8:
            return chance.choice(ODD)
    return one


ODD = (
    b"[" * 20_000,
    b'{"params": {"a": %b}, "method": "no/such", "id": 3}' % (b"9" * 5_000),
    b'{"id": 1, "method": "no/such", "params": NaN}',
    b'{"id": 1, "method": "no/such", "params": -Infinity}',
)


def owed(sent: Sequence[bytes]) -> Counter[Any]:
    """How many replies there must be to each id; None counts the messages that are answered without one."""
    return Counter(key for body in sent for key in _owed_to(body))


def _owed_to(body: bytes) -> list[Any]:
    try:
        message = json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return [salvage_request_id(body)]
    if not isinstance(message, dict):
        return [None]
    if "method" not in message:
        return [] if "result" in message or "error" in message else [None]
    key = message.get("id")
    if isinstance(key, int | str) and not isinstance(key, bool):
        return [key]
    return [] if key is None and isinstance(message["method"], str) else [None]


def _refuse(name: str) -> None:
    raise ValueError(name)


def assert_fit_for_a_client(reply: Any) -> None:
    """No traceback and no path of ours leaves the server."""
    assert ("result" in reply) != ("error" in reply)
    if "error" in reply:
        assert set(reply["error"]) == {"code", "message"}
        words = reply["error"]["message"]
        assert not any(leak in words for leak in ("Traceback", 'File "', "site-packages", "lsp_server/"))

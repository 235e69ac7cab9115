"""Generated JSON-RPC: nearly right, wrong in every part, or no messages at all; and the replies due to each."""

import codecs
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

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
    "textDocument/copilotInlineEdit": {"textDocument": {"uri": URI, "version": 2}, "position": PLACE},
    "textDocument/didShowInlineEdit": {"item": {"command": {"arguments": ["next-1", URI]}}},
    "initialize": {"capabilities": {}},
    "$/cancelRequest": {"id": 1},
    "no/such": {"a": 1},
}
"""Right params for methods; neither `shutdown` nor `exit`, after which nothing more would be tried."""

junk = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5), st.just(2**64)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=4,
)
ids = st.one_of(st.integers(0, 3), st.sampled_from(["a", "", 2**70, -1]), junk)


@st.composite
def bent(draw: st.DrawFn, value: Any) -> Any:
    """`value` with one part of it, anywhere, replaced or left out."""
    if not (isinstance(value, dict | list) and value) or draw(st.integers(0, 4)) == 0:
        return draw(junk)
    copy = value.copy()
    key = draw(st.sampled_from(sorted(copy) if isinstance(copy, dict) else range(len(copy))))
    if draw(st.integers(0, 3)) == 0:
        del copy[key]
    else:
        copy[key] = draw(bent(copy[key]))
    return copy


@st.composite
def messages(draw: st.DrawFn) -> Any:
    """One message: usually a known method with params that are right or bent."""
    method = draw(st.sampled_from(sorted(VALID)))
    params = VALID[method] if draw(st.booleans()) else draw(bent(VALID[method]))
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    if draw(st.integers(0, 5)):
        message["id"] = draw(ids)
    return draw(bent(message)) if draw(st.integers(0, 5)) == 0 else message


def encoded(message: Any) -> bytes:
    return json.dumps(message).encode()


def cut_short(message: Any) -> bytes:
    return encoded(message)[:-7]


def spoiled(message: Any) -> bytes:
    return encoded(message).replace(b"python", b"\xffpython")


def _nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


bodies = st.one_of(
    messages().map(encoded),
    st.lists(messages(), max_size=4).map(encoded),
    st.binary(max_size=20),
    st.text('{}[],:"1a\\\\', max_size=20).map(str.encode),
    messages().map(cut_short),
    messages().map(spoiled),
    st.just(b"[" * 20_000),
    st.one_of(st.integers(1, 200), st.integers(5_000, 9_000)).map(
        lambda depth: b'{"id": 2, "method": "no/such", "params": %b}' % _nested(depth)
    ),
    st.just(b'{"params": {"a": %b}, "method": "no/such", "id": 3}' % (b"9" * 5_000)),
    messages().map(lambda message: codecs.BOM_UTF8 + encoded(message)),
    st.just(b'{"id": 1, "method": "no/such", "params": NaN}'),
    st.just(b'{"id": 1, "method": "no/such", "params": -Infinity}'),
)


def owed(sent: Sequence[bytes]) -> Counter[Any]:
    """How many replies there must be to each id; None counts the messages that are answered without one."""
    return Counter(key for body in sent for key in _owed_to(body))


def _owed_to(body: bytes) -> list[Any]:
    try:
        message = json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return [None]
    return _reply_to(message)


def _refuse(name: str) -> None:
    raise ValueError(name)


def _reply_to(message: Any) -> list[Any]:
    if not isinstance(message, dict):
        return [None]
    if "method" not in message:
        return [] if "result" in message or "error" in message else [None]
    key = message.get("id")
    if is_id(key):
        return [key]
    return [] if key is None and isinstance(message["method"], str) else [None]


def is_id(value: Any) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def assert_fit_for_a_client(reply: Any) -> None:
    """No traceback and no path of ours leaves the server."""
    assert ("result" in reply) != ("error" in reply)
    if "error" in reply:
        assert set(reply["error"]) == {"code", "message"}
        words = reply["error"]["message"]
        assert not any(leak in words for leak in ("Traceback", 'File "', "site-packages", "lsp_server/"))

"""Every request gets a reply, even invalid ones; no internals leak into the reply."""

import json
from itertools import product
from typing import Any

import pytest

from tests.e2e.conftest import StartRaw

pytestmark = pytest.mark.asyncio(loop_scope="session")

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
NOT_INITIALIZED = -32002
METHODS = ("textDocument/inlineCompletion", "textDocument/codeAction", "codeAction/resolve")
UNDECODABLE: tuple[Any, ...] = (None, {}, [], "text", {"textDocument": {"uri": 5}, "position": {"line": "SECRET"}})


async def test_undecodable_params_are_answered(start_raw: StartRaw) -> None:
    client = await start_raw()
    for number, (method, params) in enumerate(product(METHODS, UNDECODABLE)):
        client.request(number, method, params)
        error = (await client.reply(number))["error"]
        assert error["code"] == INVALID_PARAMS
        assert method in error["message"]
        assert "data" not in error
        assert "SECRET" not in json.dumps(error)


async def test_an_unknown_method_is_answered_with_and_without_params(start_raw: StartRaw) -> None:
    client = await start_raw()
    client.send({"id": 1, "method": "no/such"})
    client.request("two", "no/such", {"a": 1})
    assert (await client.reply(1))["error"]["code"] == METHOD_NOT_FOUND
    assert (await client.reply("two"))["error"]["code"] == METHOD_NOT_FOUND


async def test_unknown_notifications_and_stray_replies_are_ignored(start_raw: StartRaw) -> None:
    client = await start_raw()
    client.send({"method": "no/such"})
    client.send({"method": "$/cancelRequest", "params": {"id": 77}})
    client.send({"method": "$/cancelRequest"})
    client.send({"id": "never asked", "result": {}})
    client.send({"id": "never asked", "error": {"nonsense": True}})
    await client.status()
    assert list(client.replies)[1:] == [key for key in client.replies if str(key).startswith("status")]


async def test_what_is_no_message_is_answered_and_the_server_goes_on(start_raw: StartRaw) -> None:
    client = await start_raw()
    client.send_bytes(b"{nonsense")
    assert (await client.reply(None))["error"]["code"] == PARSE_ERROR
    client.send({"id": 3, "method": 5})
    assert (await client.reply(3))["error"]["code"] == INVALID_REQUEST
    client.send_bytes(b"[1]")
    assert "state" in await client.status()
    assert client.counts[None] == 2


async def test_nothing_is_done_before_initialize(start_raw: StartRaw) -> None:
    client = await start_raw(initialize=False)
    client.request(1, "textDocument/codeAction", {})
    assert (await client.reply(1))["error"]["code"] == NOT_INITIALIZED
    client.request(2, "initialize", {"capabilities": {"textDocument": "of a later protocol"}})
    assert (await client.reply(2))["result"]["capabilities"]["positionEncoding"] == "utf-16"
    client.request(3, "initialize", {"capabilities": {}})
    assert (await client.reply(3))["error"]["code"] == INVALID_REQUEST


async def test_requests_after_shutdown_are_refused(start_raw: StartRaw) -> None:
    client = await start_raw()
    client.request(1, "shutdown")
    client.request(2, "infill/status")
    assert (await client.reply(2))["error"]["code"] == INVALID_REQUEST
    assert "result" in await client.reply(1)
    assert await client.quit(shutdown=False) == 0


async def test_a_document_whose_edit_cannot_be_read_gets_no_more_fills(start_raw: StartRaw) -> None:
    """Our text would no longer be the editor's, and an edit made for it would land in the wrong place."""
    client = await start_raw()
    client.open("file:///p/a.py", "x = ???\n")
    document = {"uri": "file:///p/a.py", "version": 2}
    client.send({"method": "textDocument/didSave", "params": {"textDocument": document, "text": 5}})  # does no harm
    assert (await client.status("file:///p/a.py"))["off"] is None
    broken = {"textDocument": document, "contentChanges": [{"range": "everywhere", "text": 5}]}
    client.send({"method": "textDocument/didChange", "params": broken})
    client.complete(1, "file:///p/a.py", 0, 4)
    assert (await client.reply(1))["result"] == {"items": []}
    assert "open it again" in (await client.status("file:///p/a.py"))["off"]
    (shown,) = (note["params"]["message"] for note in client.notes if note["method"] == "window/showMessage")
    assert "a.py" in shown
    client.open("file:///p/a.py", "x = ???\n")
    assert (await client.status("file:///p/a.py"))["off"] is None


async def test_header_names_are_not_case_sensitive(start_raw: StartRaw) -> None:
    client = await start_raw()
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "infill/status"}).encode()
    head = b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-length:%d\r\n\r\n" % len(body)
    assert client.process.stdin is not None
    client.process.stdin.write(head + body)
    assert "state" in (await client.reply(1))["result"]


async def test_lone_surrogates_do_no_harm(start_raw: StartRaw) -> None:
    client = await start_raw()
    client.open("file:///p/a.py", "s = '\ud800'\nx = 1 + \n")
    client.complete(1, "file:///p/a.py", 1, 8)
    assert "result" in await client.reply(1)
    assert not [note for note in client.notes if note["method"] == "window/showMessage"]

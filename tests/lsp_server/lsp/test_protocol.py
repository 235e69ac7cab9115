"""The dispatcher: each request gets one reply, and internal errors stay internal."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from lsprotocol import types

from lsp_server.lsp.editor_connection import EditorConnection
from lsp_server.lsp.protocol import ReplyError
from lsp_server.lsp.transports import ConnectedClient
from lsp_server.server import InfillServer
from tests.lsp_server.lsp.kept_output import KeptOutput, ServerUnderTest
from tests.workers import PATIENCE_S, until

SECRET = "the text of a document"
PATH = "/home/someone/file.py"


@pytest.fixture
async def tested() -> ServerUnderTest:
    return ServerUnderTest()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_handler_that_fails_is_answered_without_what_it_knows(
    tested: ServerUnderTest, log: pytest.LogCaptureFixture
) -> None:
    """Neither in the answer nor in the log, which says where it failed."""

    def fail(_: Any) -> None:
        raise ValueError(f"{SECRET} in {PATH}")

    async def fail_later(_: Any) -> None:
        raise ValueError(SECRET)

    tested.add("test/now", fail)
    tested.add("test/later", fail_later)
    with log.at_level(logging.DEBUG):
        tested.send(id=1, method="test/now")
        tested.send(id=2, method="test/later")
        await settle()
    assert [message["error"]["code"] for message in tested.output.messages] == [-32603, -32603]
    assert "ValueError" in tested.output.messages[0]["error"]["message"]
    assert not any("data" in message["error"] for message in tested.output.messages)
    assert "test/now failed: ValueError" in log.text and "in fail" in log.text
    for leaked in (SECRET, PATH, "Traceback"):
        assert leaked not in b"".join(tested.output.bodies).decode() + log.text


async def test_a_handler_that_calls_itself_for_ever_fills_no_log(
    tested: ServerUnderTest, log: pytest.LogCaptureFixture
) -> None:
    def call_itself(params: Any) -> Any:
        return call_itself(params)

    tested.add("test/now", call_itself)
    tested.send(id=1, method="test/now")
    assert "in call_itself" in log.text
    assert len(log.text.splitlines()) < 100


async def test_what_a_handler_refuses_is_said_in_its_words(tested: ServerUnderTest) -> None:
    def refuse(_: Any) -> None:
        raise ReplyError("ask again later")

    tested.add("test/refused", refuse)
    tested.send(id=1, method="test/refused")
    error = {"code": -32803, "message": "ask again later"}
    assert tested.output.messages == [{"jsonrpc": "2.0", "id": 1, "error": error}]


async def test_unsendable_result_is_an_error(tested: ServerUnderTest) -> None:
    tested.add("test/odd", lambda _: object())
    tested.send(id=1, method="test/odd")
    tested.add("test/surrogate", lambda _: "\ud800")
    tested.send(id=2, method="test/surrogate")
    assert tested.output.messages[0]["error"]["code"] == -32603
    assert tested.output.messages[1]["result"] == "\ud800"


async def test_cancelled_before_it_began_or_twice_is_answered_once(tested: ServerUnderTest) -> None:
    tested.add("test/slow", lambda _: asyncio.sleep(60))
    tested.send(id="a", method="test/slow")
    tested.send(method="$/cancelRequest", params={"id": "a"})
    tested.send(method="$/cancelRequest", params={"id": "a"})
    await settle()
    assert [(message["id"], message["error"]["code"]) for message in tested.output.messages] == [("a", -32800)]


async def test_drain_answers_even_what_will_not_stop(tested: ServerUnderTest) -> None:
    released = asyncio.Event()

    async def stubborn(_: Any) -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await released.wait()
        return "late"

    tested.add("test/stubborn", stubborn)
    tested.send(id=1, method="test/stubborn")
    await settle()
    await tested.server.protocol.drain(0.01)
    released.set()
    await settle()
    assert [message["error"]["code"] for message in tested.output.messages] == [-32800]


async def test_nonsense_from_the_client_reaches_the_asker(tested: ServerUnderTest) -> None:
    params = types.ConfigurationParams(items=[])
    asked = tested.server.protocol.send_request_async("workspace/configuration", params, "mine")
    tested.server.protocol.receive(b'{"jsonrpc": "2.0", "id": "mine", "result": 5}')
    with pytest.raises(Exception, match="could not be understood"):
        await asyncio.wait_for(asked, PATIENCE_S)
    assert not tested.output.replies


@pytest.mark.parametrize("method", ["textDocument/inlineCompletion", "textDocument/codeAction", "codeAction/resolve"])
@pytest.mark.parametrize("params", [None, {}, [], "text", {"textDocument": {"uri": 5}, "position": {"line": SECRET}}])
async def test_undecodable_params_are_answered(tested: ServerUnderTest, method: str, params: Any) -> None:
    tested.send(id=1, method=method, params=params)
    ((error,),) = [[message["error"] for message in tested.output.messages]]
    assert (set(error), error["code"]) == ({"code", "message"}, -32602)
    assert method in error["message"] and SECRET not in error["message"]


async def test_nothing_is_done_before_initialize_and_after_shutdown(tested: ServerUnderTest) -> None:
    tested.send(id=1, method="initialize", params={"capabilities": {}})
    tested.send(id=2, method="shutdown")
    tested.send(id=3, method="infill/status")
    await until(lambda: len(tested.output.replies) >= 3)
    found = {reply["id"]: reply.get("error", {}).get("code") for reply in tested.output.replies}
    assert found == {1: -32600, 2: None, 3: -32600}
    output = KeptOutput()
    server = InfillServer({}, output.write)
    start = {"id": 2, "method": "initialize", "params": {"capabilities": {"textDocument": "of a later protocol"}}}
    for message in ({"id": 1, "method": "textDocument/codeAction", "params": {}}, start):
        server.protocol.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())
    first, second = output.replies
    assert first["error"]["code"] == -32002
    assert second["result"]["capabilities"]["positionEncoding"] == "utf-16"


async def test_duplicate_request_id_is_refused(tested: ServerUnderTest) -> None:
    go_on = asyncio.Event()

    async def first(_: Any) -> str:
        await go_on.wait()
        return "first"

    tested.add("test/slow", first)
    tested.send(id=1, method="test/slow")
    tested.send(id=1, method="test/slow")
    go_on.set()
    await settle()
    refused, answered = tested.output.messages
    assert (refused["id"], refused["error"]["code"]) == (1, -32600)
    assert answered == {"jsonrpc": "2.0", "id": 1, "result": "first"}


async def test_a_request_that_comes_as_a_notification_does_nothing(tested: ServerUnderTest) -> None:
    """Least of all `shutdown`: it would forget the documents of a client that goes on."""
    document = {"uri": "file:///p/a.py", "languageId": "python", "version": 1, "text": "x = ???\n"}
    tested.send(method="textDocument/didOpen", params={"textDocument": document})
    tested.send(method="shutdown")
    tested.send(method="initialize", params={"capabilities": {"general": {"positionEncodings": ["utf-8"]}}})
    tested.send(method="workspace/executeCommand", params={"command": "infill-ls.restartWorker"})
    await settle()
    assert tested.output.messages == []
    assert tested.server.session.documents
    assert tested.server.protocol.exit_status == 1


async def test_a_request_begins_before_the_next_message_is_read(tested: ServerUnderTest) -> None:
    seen: list[str] = []

    async def request(_params: Any) -> None:
        seen.append("request")

    async def bodies() -> AsyncIterator[bytes]:
        yield b'{"id": 1, "method": "test/request"}'
        yield b'{"method": "test/notification"}'

    tested.add("test/request", request)
    tested.add("test/notification", lambda _params: seen.append("notification"))
    client = ConnectedClient(lambda _write: tested.server.protocol, lambda body: asyncio.sleep(0, body))
    await client.relay_messages(bodies())
    assert seen == ["request", "notification"]


async def test_only_the_newest_request_for_the_settings_gets_an_answer(tested: ServerUnderTest) -> None:
    editor, items = EditorConnection(tested.server), [types.ConfigurationItem(section="infill-ls")]
    asking = [asyncio.create_task(editor.request_configuration(items)) for _ in range(2)]
    await settle()
    older, newer = tested.output.messages
    tested.send(id=newer["id"], result=[{"marker": "new"}])
    tested.send(id=older["id"], result=[{"marker": "old"}])
    dropped, found = await asyncio.gather(*asking)
    assert dropped is None
    assert list(found) == [{"marker": "new"}]

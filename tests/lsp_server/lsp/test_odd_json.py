"""JSON at its edges: deep, long, marked, repeated. The sender is found and answered, and the log stays short."""

import json
import logging
from typing import Any

import pytest

from lsp_server.server import InfillServer
from tests.lsp_server.lsp.kept_output import KeptOutput
from tests.workers import until

URI = "file:///p/a.py"
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
ACTION = {"title": "Fill", "kind": "refactor.rewrite.infill"}


class Talk:
    """What an initialized server answers to bytes."""

    def __init__(self) -> None:
        self.output = KeptOutput()
        self.server = InfillServer({}, self.output)
        self.say(b'{"id": 0, "method": "initialize", "params": {"capabilities": {}}}')
        self.output.bodies.clear()

    def say(self, body: bytes) -> None:
        self.server.receive(body)

    async def told(self, replies: int = 1) -> list[tuple[Any, int | None]]:
        """The id of each reply, and its error code, once there are so many."""
        await until(lambda: len(self.output.replies) >= replies)
        return [(reply["id"], reply.get("error", {}).get("code")) for reply in self.output.replies]


@pytest.fixture
async def talk() -> Talk:
    return Talk()


def nested(depth: int) -> bytes:
    return b'{"a":' * (depth // 2) + b"[" * (depth // 2) + b"]" * (depth // 2) + b"}" * (depth // 2)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Any:
    logger = logging.getLogger("lsp_server")
    logger.addHandler(caplog.handler)
    with caplog.at_level(logging.DEBUG, "lsp_server"):
        yield caplog
    logger.removeHandler(caplog.handler)


@pytest.mark.parametrize("depth", [200, 40_000])
@pytest.mark.parametrize(
    "message",
    [
        b'{"id": 7, "method": "codeAction/resolve", "params": {"title": "Fill", "data": %b}}',
        b'{"params": {"title": "Fill", "kind": "refactor.rewrite.infill", "data": %b}, "method": "codeAction/resolve",'
        b' "id": 7}',
        b'[{"id": 7, "method": "codeAction/resolve", "params": %b}]',
        b'{"id": 7, "method": "workspace/executeCommand", "params": {"command": "infill-ls.fillHole",'
        b' "arguments": [%b]}}',
    ],
)
async def test_deep_params_are_refused(talk: Talk, log: pytest.LogCaptureFixture, message: bytes, depth: int) -> None:
    talk.say(message % nested(depth))
    assert await talk.told() == [(7, INVALID_PARAMS)]
    assert "nested" in talk.output.replies[0]["error"]["message"]
    assert len(log.text.splitlines()) < 10


async def test_batch_loses_only_its_deep_message(talk: Talk) -> None:
    deep = b'{"id": 1, "method": "infill/status", "params": %b}' % nested(200)
    talk.say(b'[%b, {"id": 2, "method": "infill/status"}]' % deep)
    assert await talk.told(2) == [(1, INVALID_PARAMS), (2, None)]


async def test_deep_edit_loses_the_document(talk: Talk) -> None:
    """Our text would no longer be the editor's."""
    item = {"uri": URI, "languageId": "python", "version": 1, "text": "x = ???\n"}
    talk.say(json.dumps({"method": "textDocument/didOpen", "params": {"textDocument": item}}).encode())
    edit = b'{"method": "textDocument/didChange", "params": {"textDocument": {"uri": "%b", "version": 2}, "a": %b}}'
    talk.say(edit % (URI.encode(), nested(5_000)))
    ask = {"id": 1, "method": "infill/status", "params": {"textDocument": {"uri": URI}}}
    talk.say(json.dumps(ask).encode())
    await talk.told()
    assert "could not be read" in talk.output.replies[-1]["result"]["off"]


@pytest.mark.parametrize("params", [b"[", b'{"contentChanges": tru}', b'{"textDocument": {"uri": "file:///p/'])
async def test_unreadable_edit_loses_all_documents(params: bytes) -> None:
    talk, uris = Talk(), (URI, "file:///p/b.py")

    def tell(method: str, **params: Any) -> None:
        talk.say(json.dumps({"method": method, "params": params}).encode())

    async def why_off() -> list[str | None]:
        talk.output.bodies.clear()
        for number, uri in enumerate(uris):
            ask = {"id": number, "method": "infill/status", "params": {"textDocument": {"uri": uri}}}
            talk.say(json.dumps(ask).encode())
        await until(lambda: len(talk.output.replies) >= len(uris))  # other messages may come between them
        replies = {reply["id"]: reply["result"]["off"] for reply in talk.output.replies}
        return [replies[number] for number in range(len(uris))]

    for uri in uris:
        tell("textDocument/didOpen", textDocument={"uri": uri, "languageId": "python", "version": 1, "text": "x = 1\n"})
    assert await why_off() == [None, None]
    talk.output.bodies.clear()
    for _ in range(2):
        talk.say(b'{"method": "textDocument/didChange", "params": ' + params)
    (told,) = [one for one in talk.output.messages if one.get("method") == "window/showMessage"]
    assert "open them again" in told["params"]["message"]
    assert all(reason and "could not be read" in reason for reason in await why_off())
    tell("textDocument/didChange", textDocument={"uri": URI, "version": 4}, contentChanges=[{"text": "z = 3\n"}])
    first, second = await why_off()
    assert first is None
    assert second is not None
    assert talk.server.session.documents[URI].text == "z = 3\n"


@pytest.mark.parametrize("number", [b"9" * 5_000, b"-" + b"9" * 5_000, b"1e999", b"9" * 400 + b".5"])
async def test_huge_number_is_refused(talk: Talk, number: bytes) -> None:
    talk.say(b'{"id": "a", "method": "infill/status", "params": {"data": %b}}' % number)
    talk.say(b'{"method": "codeAction/resolve", "params": {"title": "x", "data": [%b]}, "id": 2}' % number)
    assert await talk.told(2) == [("a", INVALID_PARAMS), (2, INVALID_PARAMS)]
    assert "number" in talk.output.replies[0]["error"]["message"]


async def test_a_byte_order_mark_is_no_part_of_the_message(talk: Talk) -> None:
    talk.say(b'\xef\xbb\xbf{"id": 1, "method": "infill/status"}')
    assert await talk.told() == [(1, None)]


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (b'{"id": 5, "method": "infill/status", "params": {"a": NaN}}', 5),
        (b'{"id": 5, "method": "infill/status", "params": {"a": "\xff"}}', 5),
        (b'{"id": 5, "method": "infill/status", "params": {"a": [1, 2', 5),
        (b'{"id": "x", "method": "infill/status"} {', "x"),
        (b'{"id": 5, "method": "infill/status", "params": {"a": 1,}}', 5),
        (b'{"id": 5, "method": "infill/status", "params": "a\nb"}', 5),
        (b'{"id": 5, "id": 6, "method": "infill/status", "params": tru}', 6),
        (b'{"a": {"id": 4}, "id": 5, "method": "infill/status", "params": [,]}', 5),
        (b'{"a": "{\\"id\\": 4", "\\u0069d": 5, "method": "infill/status", "params": [,]}', 5),
        (b'{"a": {"id": 4}, "b": [,]}', None),
        (b'{"id": 12', None),  # it may have been longer
        (b'{"id": tru, "method": "infill/status"}', None),
        (b"nonsense", None),
        (b"}{", None),
        (b']]"id": 5', None),
        (b"", None),
        (b"\xff\xfe{\x00}\x00", None),
    ],
)
async def test_invalid_json_is_refused(talk: Talk, body: bytes, key: Any) -> None:
    talk.say(body)
    assert await talk.told() == [(key, PARSE_ERROR)]


@pytest.mark.parametrize("key", [b"1.5", b"1.0", b"1e3", b"-0", b"9" * 4_000, b'""', b'"\\ud800"'])
async def test_an_id_comes_back_as_it_was(talk: Talk, key: bytes) -> None:
    talk.say(b'{"id": %b, "method": "no/such"}' % key)
    assert await talk.told() == [(json.loads(key), METHOD_NOT_FOUND)]


@pytest.mark.parametrize("key", [b"1e999", b"9" * 5_000, b"true", b"[1]", b"{}"])
async def test_what_is_no_id_is_refused_without_one(talk: Talk, key: bytes) -> None:
    talk.say(b'{"id": %b, "method": "infill/status"}' % key)
    ((key_told, code),) = await talk.told()
    assert key_told is None
    assert code in (INVALID_REQUEST, INVALID_PARAMS)

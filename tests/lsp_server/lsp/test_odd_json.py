"""JSON at its edges: whatever comes, it is answered."""

import json
from typing import Any

import pytest

from tests.lsp_server.lsp.kept_output import ServerUnderTest
from tests.workers import until

URI = "file:///p/a.py"
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
OPENED = (URI, "file:///p/b.py")
DEEP = b"[" * 9_000 + b"]" * 9_000


@pytest.fixture
async def talk() -> ServerUnderTest:
    return ServerUnderTest()


def tell(talk: ServerUnderTest, method: str, **params: Any) -> None:
    talk.say(json.dumps({"method": method, "params": params}).encode())


async def open_two(talk: ServerUnderTest) -> None:
    for uri in OPENED:
        document = {"uri": uri, "languageId": "python", "version": 1, "text": "x = 1\n"}
        tell(talk, "textDocument/didOpen", textDocument=document)
    assert await disabled_reason(talk) == [None, None]
    talk.output.bodies.clear()


async def disabled_reason(talk: ServerUnderTest) -> list[str | None]:
    """Why each of the two gets no fills."""
    talk.output.bodies.clear()
    for number, uri in enumerate(OPENED):
        ask = {"id": number, "method": "infill/status", "params": {"textDocument": {"uri": uri}}}
        talk.say(json.dumps(ask).encode())
    await until(lambda: len(talk.output.replies) >= len(OPENED))  # other messages may come between them
    replies = {reply["id"]: reply["result"]["off"] for reply in talk.output.replies}
    return [replies[number] for number in range(len(OPENED))]


@pytest.mark.parametrize(("depth", "key"), [(200, 7), (5_000, 7), (20_000, 7)])
async def test_deep_params_are_answered(talk: ServerUnderTest, depth: int, key: int) -> None:
    deep = b'[{"]": ' * depth + b"1" + b"}]" * depth
    talk.say(b'{"method": "codeAction/resolve", "params": {"title": "\\"}", "data": %b}, "id": 7}' % deep)
    talk.say(b'{"id": 8, "method": "no/such"}')
    assert {answered for answered, _ in await talk.told(2)} == {key, 8}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("textDocument", b"["),
        ("textDocument", b'{"contentChanges": tru}'),
        ("textDocument", b'{"textDocument": {"uri": "file:///p/'),
        ("textDocument", b'{"textDocument": {"uri": {}, "version": 1}, "contentChanges": 5}}'),
        ("textDocument", b'{"textDocument": {"uri": "file:///p/a.py"}, "contentChanges": %b}}' % DEEP),
        ("notebookDocument", b'{"notebookDocument": {"version": 2, "uri": "file:///p/n"}, "change": %b}}' % DEEP),
    ],
)
async def test_unreadable_edit_loses_all_documents(talk: ServerUnderTest, method: str, params: bytes) -> None:
    """The cells of a notebook have other URIs than it."""
    await open_two(talk)
    for _ in range(2):
        talk.say(b'{"method": "%b/didChange", "params": %b' % (method.encode(), params))
    (told,) = [one for one in talk.output.messages if one.get("method") == "window/showMessage"]
    assert "reopen your files" in told["params"]["message"]
    assert all(reason and "could not be read" in reason for reason in await disabled_reason(talk))
    tell(talk, "textDocument/didChange", textDocument={"uri": URI, "version": 4}, contentChanges=[{"text": "z = 3\n"}])
    first, second = await disabled_reason(talk)
    assert first is None
    assert second is not None
    assert talk.server.session.documents[URI].text == "z = 3\n"


async def test_an_odd_edit_loses_only_its_document_until_reopened(talk: ServerUnderTest) -> None:
    """Our text would no longer be the editor's, and an edit made for it would land in the wrong place."""
    await open_two(talk)
    tell(talk, "textDocument/didSave", textDocument={"uri": URI}, text=5)  # does no harm
    odd = [{"range": "everywhere", "text": 5}]
    tell(talk, "textDocument/didChange", textDocument={"uri": URI, "version": 2}, contentChanges=odd)
    (shown,) = [
        each["params"]["message"] for each in talk.output.messages if each.get("method") == "window/showMessage"
    ]
    assert "a.py" in shown
    first, second = await disabled_reason(talk)
    assert first is not None and "could not be read; reopen the file" in first
    assert second is None
    await open_two(talk)


@pytest.mark.parametrize("number", [b"1e999", b"9" * 400 + b".5", b"NaN", b"9" * 5_000])
async def test_numbers_that_are_none_are_answered(talk: ServerUnderTest, number: bytes) -> None:
    talk.say(b'{"method": "codeAction/resolve", "params": {"title": "x", "data": [%b]}, "id": 2}' % number)
    talk.say(b'{"method": "infill/status", "id": %b}' % number)
    await talk.told(2)
    assert all("error" in reply for reply in talk.output.replies)


IS_NONE = (
    b"{}",
    b'{"id": 1}',
    b'{"id": null}',
    b'{"id": [1]}',
    b'{"jsonrpc": "2.0", "params": {}}',
    b"\xff\xfe{\x00}\x00",
)
IS_NO_JSON = (b"nonsense", b"}{", b"", b'{"id": 12', b'{"method": "x", "params": {"id": 7}')
IS_SALVAGED = (
    b'{"id": 5, "method": "infill/status"} {',
    b' \r\n{"id": 5, "method": "infill/status", "params": NaN}',
    b'{"id": 5, "method": "infill/status", "params": {"id": 6, "text": "\xff',
    b'{"method": "infill/status", "params": {"id": 6, "text": "\xff\\""}, "id": 5}',
    b'{"method": "infill/status", "params": [{"id": 6}, tru], "id" : 5}',
    b'{"method": "infill/status", "params": [%b], "id": 5}' % (b"9" * 5_000),
    b'{"id": 5, "params": "%b' % (b"x" * 20_000_000),
    b'{"id": 5, "method": "infill/status", "params": %b' % (b"[" * 1_000_000),
)
ANSWERS_NOTHING = (
    *(b'{"id": null, "error": {"code": 1, "message": "x"}}', b'{"id": {}, "error": 5}', b'{"result": 1}'),
    b'{"id": "nobody asked", "result": null, "error": null}',
)


def called(key: bytes) -> bytes:
    return b'{"id": %b, "method": "no/such"}' % key


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"\xef\xbb\xbf" + called(b"1"), [(1, METHOD_NOT_FOUND)]),
        *((called(key), [(json.loads(key), METHOD_NOT_FOUND)]) for key in (b"-0", b'""', b'"\\ud800"')),
        *((called(key), [(None, INVALID_REQUEST)]) for key in (b"true", b"1.5", b"[1]", b"{}")),
        *((body, [(None, INVALID_REQUEST)]) for body in IS_NONE),
        *((body, [(None, PARSE_ERROR)]) for body in IS_NO_JSON),
        (b'{"id": 5, "result": tru}', [(None, PARSE_ERROR)]),
        *((body, [(5, PARSE_ERROR)]) for body in IS_SALVAGED),
        *((body, []) for body in ANSWERS_NOTHING),
    ],
)
async def test_each_odd_message_gets_its_reply(
    talk: ServerUnderTest, body: bytes, told: list[tuple[object, int | None]]
) -> None:
    talk.say(body)
    talk.say(called(b'"last"'))
    assert await talk.told(len(told) + 1) == [*told, ("last", METHOD_NOT_FOUND)]

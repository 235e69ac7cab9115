"""A WebSocket client that has left, or does not read, causes one log line and is then ignored."""

import asyncio
import logging
import time
from collections.abc import Callable

import pytest
from websockets.asyncio.client import connect

from lsp_server.lsp.transports import MAX_QUEUED_BYTES, ByteWriter, websocket
from lsp_server.lsp.transports.address import ListenAddress
from tests.workers import until


class Answering:
    """A conversation that answers the client's first message as a test wants, and knows when it was left."""

    def __init__(self, answer: Callable[[], None]) -> None:
        self.ended = asyncio.Event()
        self.left = asyncio.Event()
        self._answer = answer

    def receive(self, _: bytes) -> None:
        self._answer()

    async def leave(self) -> None:
        self.left.set()


async def lines_about(answer: Callable[[ByteWriter], None], log: pytest.LogCaptureFixture, *, gone: bool) -> list[str]:
    """What the log says of a client that is answered in this way, and reads nothing or is `gone`."""
    conversations: list[Answering] = []

    def start(output: ByteWriter) -> Answering:
        conversations.append(Answering(lambda: answer(output)))
        return conversations[-1]

    logging.getLogger("lsp_server").addHandler(log.handler)
    listener, address = await websocket.listen(ListenAddress("127.0.0.1", 0), start, [])
    client = await connect(f"ws://{address}", max_queue=1, compression=None)
    await client.send("go")
    if gone:
        client.transport.abort()
    await until(lambda: conversations and conversations[0].left.is_set())
    client.transport.abort()
    await listener.close()
    logging.getLogger("lsp_server").removeHandler(log.handler)
    return list({record.created: record.getMessage() for record in log.records if record.levelname != "DEBUG"}.values())


async def test_client_with_too_much_unread_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    def answer(output: ByteWriter) -> None:
        for _ in range(300):
            output.write(bytes(MAX_QUEUED_BYTES // 100))

    lines = await lines_about(answer, caplog, gone=False)
    assert lines == ["a client does not read its messages and is cut off"]


async def test_messages_for_a_gone_client_fill_no_log(caplog: pytest.LogCaptureFixture) -> None:
    def answer(output: ByteWriter) -> None:
        time.sleep(0.5)  # it is gone before anybody here can have noticed
        for _ in range(5_000):
            output.write(b"{}")

    assert await lines_about(answer, caplog, gone=True) == []

"""A TCP client that never reads, or never stops talking, costs the others nothing."""

import asyncio
from collections.abc import Callable

import pytest

from lsp_server.lsp.transports import MAX_QUEUED_BYTES, ByteWriter, Conversation, framed, tcp
from lsp_server.lsp.transports.address import ListenAddress
from tests.workers import until


class Counting:
    """A conversation that keeps what it receives, and calls `answer` with each message."""

    def __init__(self, output: ByteWriter, answer: Callable[[ByteWriter, bytes], None]) -> None:
        self.ended, self.left = asyncio.Event(), asyncio.Event()
        self.received: list[bytes] = []
        self._answer = lambda body: answer(output, body)

    def receive(self, body: bytes) -> None:
        self.received.append(body)
        self._answer(body)

    async def leave(self) -> None:
        self.left.set()


async def test_endless_talker_does_not_block_others() -> None:
    """Each of its messages takes half a millisecond, as a real one does."""
    conversations: list[Counting] = []
    total, body = 4_000, b"{}"

    def work(_output: ByteWriter, _body: bytes) -> None:
        until_s = asyncio.get_running_loop().time() + 0.0005
        while asyncio.get_running_loop().time() < until_s:
            pass

    def start(output: ByteWriter) -> Conversation:
        conversations.append(Counting(output, work))
        return conversations[-1]

    listener, address = await tcp.listen(ListenAddress("127.0.0.1", 0), start)
    _, loud = await asyncio.open_connection(address.host, address.port)
    _, quiet = await asyncio.open_connection(address.host, address.port)
    await until(lambda: len(conversations) == 2)
    loud.write(framed(body) * total)
    quiet.write(framed(b"[]"))
    await until(lambda: any(each.received == [b"[]"] for each in conversations))
    heard = max(len(each.received) for each in conversations)
    assert heard < total, "all of the loud one's messages came first"
    loud.transport.abort()
    quiet.transport.abort()
    await listener.close()


@pytest.mark.parametrize("asks_on", [True, False])
async def test_one_that_never_reads_is_dropped(*, asks_on: bool) -> None:
    conversations: list[Counting] = []

    def start(output: ByteWriter) -> Conversation:
        conversations.append(Counting(output, lambda output, body: output.write(bytes(len(body) * 1000))))
        return conversations[-1]

    listener, address = await tcp.listen(ListenAddress("127.0.0.1", 0), start, unread_s=0.2)
    _, writer = await asyncio.open_connection(address.host, address.port, limit=1)  # it stops reading by itself
    sent = 0
    while sent * 1000 < MAX_QUEUED_BYTES * (20 if asks_on else 1):
        writer.write(framed(bytes(10_000)))
        sent += 10_000
    await until(lambda: bool(conversations) and conversations[0].left.is_set())
    writer.transport.abort()
    await listener.close()

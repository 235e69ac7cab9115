"""A client that has left, never reads, or never stops talking costs the others nothing."""

import asyncio
import time
from collections.abc import Callable

import pytest

from inference.remote.access import AccessControl
from lsp_server.lsp.transports import MAX_UNREAD_BYTES, ListenAddress, Listener, Write, framed, listen_tcp
from tests.lsp_server.lsp.kept_output import Kept
from tests.workers import until

OPEN: list[asyncio.StreamWriter] = []
"""A writer that nobody has any more closes its connection."""


async def test_endless_talker_does_not_block_others() -> None:
    """Each of its messages takes half a millisecond, as a real one does."""
    conversations: list[Kept] = []
    total, body = 4_000, b"{}"

    def work(_: Write) -> None:
        until_s = asyncio.get_running_loop().time() + 0.0005
        while asyncio.get_running_loop().time() < until_s:
            pass

    def start(write: Write) -> Kept:
        conversations.append(Kept(write, work))
        return conversations[-1]

    listener, address = await listen(start)
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


async def tcp_client(address: ListenAddress) -> asyncio.WriteTransport:
    """A client that asks once and reads nothing."""
    _, writer = await asyncio.open_connection(address.host, address.port, limit=1)  # it stops reading by itself
    writer.write(framed(b"go"))
    OPEN.append(writer)
    return writer.transport


async def listen(start: Callable[[Write], Kept]) -> tuple[Listener, ListenAddress]:
    listening = ListenAddress("127.0.0.1", 0).listen()
    listener = await listen_tcp([listening], lambda write, _: start(write), AccessControl(""))
    return listener, ListenAddress(*listening.getsockname())


async def lines_about(answer: Callable[[Write], None], log: pytest.LogCaptureFixture) -> list[str]:
    """What the log says of a client that is answered in this way."""
    conversations: list[Kept] = []

    def start(write: Write) -> Kept:
        conversations.append(Kept(write, answer))
        if answer is answer_late:
            for client in clients:
                client.abort()
        return conversations[-1]

    clients = list[asyncio.WriteTransport]()
    listener, address = await listen(start)
    client = await tcp_client(address)
    clients.append(client)
    if answer is answer_late and conversations:
        client.abort()
    await until(lambda: conversations and conversations[0].left.is_set())
    client.abort()
    await listener.close()
    return list({record.created: record.getMessage() for record in log.records if record.levelname != "DEBUG"}.values())


def answer_much(write: Write) -> None:
    for _ in range(300):
        write(bytes(MAX_UNREAD_BYTES // 100))


def answer_late(write: Write) -> None:
    time.sleep(0.5)  # the client is gone before anybody here can have noticed
    for _ in range(5_000):
        write(b"{}")


async def test_client_with_too_much_unread_is_cut_off(log: pytest.LogCaptureFixture) -> None:
    lines = await lines_about(answer_much, log)
    assert lines == ["a client does not read its messages and is cut off"]


async def test_messages_for_a_gone_client_fill_no_log(log: pytest.LogCaptureFixture) -> None:
    assert await lines_about(answer_late, log) == []

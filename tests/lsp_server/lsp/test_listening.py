"""A client that has left, never reads, or never stops talking costs the others nothing."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from websockets.asyncio.client import connect

from inference.remote.access import EndpointAuth
from lsp_server.lsp.transports import (
    MAX_UNREAD_BYTES,
    ListenAddress,
    Listener,
    Write,
    framed,
    listen_tcp,
    listen_websocket,
)
from tests.lsp_server.lsp.kept_output import Kept
from tests.workers import until

ADDRESS = ListenAddress("127.0.0.1", 0)
OPEN: list[asyncio.StreamWriter] = []
"""A writer that nobody has any more closes its connection."""
Reached = Callable[[ListenAddress], Awaitable[asyncio.WriteTransport]]


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

    listener, address = await listen(tcp_client, start)
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


async def websocket_client(address: ListenAddress) -> asyncio.WriteTransport:
    client = await connect(f"ws://{address}", max_queue=1, compression=None)
    await client.send("go")
    return client.transport


async def listen(kind: Reached, start: Callable[[Write], Kept]) -> tuple[Listener, ListenAddress]:
    listening = ADDRESS.listen()
    door = [listening], lambda write, _: start(write), EndpointAuth("")
    opening = listen_tcp(*door) if kind is tcp_client else listen_websocket(*door, [])
    return await opening, ListenAddress(*listening.getsockname())


async def lines_about(kind: Reached, answer: Callable[[Write], None], log: pytest.LogCaptureFixture) -> list[str]:
    """What the log says of a client that is answered in this way."""
    conversations: list[Kept] = []

    def start(write: Write) -> Kept:
        conversations.append(Kept(write, answer))
        if answer is answer_late:
            for client in clients:
                client.abort()
        return conversations[-1]

    clients = list[asyncio.WriteTransport]()
    listener, address = await listen(kind, start)
    client = await kind(address)
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


@pytest.mark.parametrize("kind", [tcp_client, websocket_client])
async def test_client_with_too_much_unread_is_cut_off(kind: Reached, log: pytest.LogCaptureFixture) -> None:
    lines = await lines_about(kind, answer_much, log)
    assert lines == ["a client does not read its messages and is cut off"]


@pytest.mark.parametrize("kind", [tcp_client, websocket_client])
async def test_messages_for_a_gone_client_fill_no_log(kind: Reached, log: pytest.LogCaptureFixture) -> None:
    assert await lines_about(kind, answer_late, log) == []

"""Reading and writing the process's own streams: however they end, the server notices."""

import asyncio
import os
from collections.abc import Callable
from io import BytesIO, RawIOBase

import pytest

from lsp_server.lsp.transports import (
    MAX_UNREAD_BYTES,
    ConnectedClient,
    encode_lsp_frame,
    read_frames,
    threaded_reader,
    threaded_writer,
)
from tests.lsp_server.lsp.kept_output import Kept
from tests.workers import PATIENCE_S


class Silent(BytesIO):
    """A stream on which nothing comes."""

    def read1(self, *_: object) -> bytes:
        reading, _writing = os.pipe()
        return os.read(reading, 1)


async def listen(reading: BytesIO, writing: RawIOBase, begin: Callable[[Kept], None] = lambda _: None) -> Kept:
    """The conversation with a client at these streams, once that is gone."""
    client = ConnectedClient(Kept, threaded_writer(writing))
    begin(client.conversation)
    async with asyncio.timeout(PATIENCE_S):
        await client.relay_messages(read_frames(threaded_reader(reading)))
    await client.leave()
    return client.conversation


async def test_writing_to_a_gone_editor_ends_the_server() -> None:
    stream = BytesIO()
    stream.close()
    conversation = await listen(Silent(), stream, lambda it: it.write(b"x"))
    conversation.write(b"y")


@pytest.mark.parametrize("size", [100, 10_000])
async def test_slow_reader_blocks_nobody_and_gets_all_in_order(size: int) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb", buffering=0) as stream, os.fdopen(reading, "rb") as unread:
        client = ConnectedClient(Kept, threaded_writer(stream))
        bodies = [b"%d %b" % (number, b"x" * size) for number in range(1_000_000 // size)]  # more than a pipe holds
        for body in bodies:
            client.write(body)
        sent = b"".join(map(encode_lsp_frame, bodies))
        assert await asyncio.to_thread(unread.read, len(sent)) == sent
        await client.leave()


@pytest.mark.parametrize("end", [b"", b"Content-Length: 99999999999\r\n\r\n{}", b"x" * 80_000 + b"\r\n"])
async def test_each_message_is_passed_on_and_the_end_is_told(end: bytes) -> None:
    conversation = await listen(BytesIO(encode_lsp_frame(b"{}") + encode_lsp_frame(b"[]") + end), BytesIO())
    assert conversation.received == [b"{}", b"[]"]


async def test_a_stream_that_breaks_ends_the_server() -> None:
    class Broken(BytesIO):
        def read1(self, *_: object) -> bytes:
            raise MemoryError

    await listen(Broken(), BytesIO())


async def test_a_client_with_too_much_unread_is_cut_off(log: pytest.LogCaptureFixture) -> None:
    async def never_sent(_: bytes) -> None:
        await asyncio.Event().wait()

    client = ConnectedClient(Kept, never_sent)
    await asyncio.sleep(0)
    for _ in range(300):
        client.write(bytes(MAX_UNREAD_BYTES // 100))
    async with asyncio.timeout(PATIENCE_S):
        await client.relay_messages(read_frames(threaded_reader(Silent())))
    await client.leave()
    assert {record.getMessage() for record in log.records} == {"a client does not read its messages and is cut off"}

"""Reading and writing the process's own streams: however they end, the server is told."""

import asyncio
from io import BytesIO

import pytest

from lsp_server.lsp.transports.stdio import StdioWriter, read_in_thread


def test_writing_to_an_editor_that_is_gone_tells_and_does_not_raise() -> None:
    lost: list[bool] = []
    stream = BytesIO()
    stream.close()
    output = StdioWriter(stream, lambda: lost.append(True))
    output.write(b"x")
    assert lost == [True]


@pytest.mark.parametrize("after", [b"", b"Content-Length: 99999999999\r\n\r\n{}", b"x" * 20_000])
async def test_each_message_is_passed_on_and_the_end_is_told(after: bytes) -> None:
    ended, received = asyncio.Event(), []
    read_in_thread(BytesIO(b"Content-Length: 2\r\n\r\n{}" + after), received.append, ended.set)
    async with asyncio.timeout(10):
        await ended.wait()
    assert received == [b"{}"]


async def test_a_stream_that_breaks_ends_the_server() -> None:
    class Broken(BytesIO):
        def read1(self, *_: object) -> bytes:
            raise MemoryError

    ended = asyncio.Event()
    read_in_thread(Broken(), lambda _: None, ended.set)
    async with asyncio.timeout(10):
        await ended.wait()

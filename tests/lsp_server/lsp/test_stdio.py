"""Reading and writing the process's own streams: however they end, the server notices."""

import asyncio
import logging
import os
import threading
from io import BytesIO

import pytest

from lsp_server.lsp.transports import MAX_UNREAD_BYTES, framed
from lsp_server.lsp.transports.stdio import StdioWriter, read_in_thread
from tests.workers import PATIENCE_S


async def test_writing_to_a_gone_editor_does_not_raise() -> None:
    lost = threading.Event()
    stream = BytesIO()
    stream.close()
    output = StdioWriter(stream, lost.set)
    output.write(b"x")
    assert lost.wait(PATIENCE_S)
    output.write(b"y")


async def test_slow_reader_blocks_nobody_and_gets_all_in_order() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb", buffering=0) as stream, os.fdopen(reading, "rb") as unread:
        output = StdioWriter(stream, lambda: None)
        bodies = [b"%d %b" % (number, b"x" * 10_000) for number in range(100)]  # more than a pipe holds
        for body in bodies:
            output.write(body)
        output.close()
        sent = b"".join(map(framed, bodies))
        assert unread.read(len(sent)) == sent
        await output.flushed()


def test_an_editor_that_lets_too_much_pile_up_counts_as_gone(caplog: pytest.LogCaptureFixture) -> None:
    reading, writing = os.pipe()
    lost = threading.Event()
    with os.fdopen(writing, "wb", buffering=0) as stream:
        output = StdioWriter(stream, lost.set)
        logging.getLogger("lsp_server").addHandler(caplog.handler)
        for _ in range(2_000):
            output.write(b"x" * (MAX_UNREAD_BYTES // 10))
        logging.getLogger("lsp_server").removeHandler(caplog.handler)
        assert lost.is_set()
        assert len({record.created for record in caplog.records}) == 1, "said once, kept by one handler or two"
        assert "does not read" in caplog.text
        os.close(reading)  # which ends the writing


@pytest.mark.parametrize("end", [b"", b"Content-Length: 99999999999\r\n\r\n{}", b"x" * 20_000 + b"\r\n"])
async def test_each_message_is_passed_on_and_the_end_is_told(end: bytes) -> None:
    ended, received = asyncio.Event(), []
    read_in_thread(BytesIO(framed(b"{}") + framed(b"[]") + end), received.append, ended.set)
    async with asyncio.timeout(10):
        await ended.wait()
    assert received == [b"{}", b"[]"]


async def test_a_stream_that_breaks_ends_the_server() -> None:
    class Broken(BytesIO):
        def read1(self, *_: object) -> bytes:
            raise MemoryError

    ended = asyncio.Event()
    read_in_thread(Broken(), lambda _: None, ended.set)
    async with asyncio.timeout(10):
        await ended.wait()

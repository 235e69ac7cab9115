"""Frames are read whole, whatever their headers look like."""

import asyncio
from io import BytesIO

import pytest

from lsp_server.stdio import MAX_BODY_BYTES, Output, frames, read_in_thread


@pytest.mark.parametrize(
    "stream",
    [
        b"Content-Length: 2\r\n\r\n{}",
        b"content-length:2\r\n\r\n{}",
        b"Content-Type: x; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}",
        b"Content-Length: 2\nContent-Type: x\n\n{}",
        b"\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
def test_one_frame(stream: bytes) -> None:
    assert list(frames(BytesIO(stream))) == [b"{}"]


def test_frames_follow_each_other_and_one_that_is_cut_short_is_dropped() -> None:
    stream = b"Content-Length: 2\r\n\r\n{}Content-Length: 4\r\n\r\n\r\n\r\nContent-Length: 9\r\n\r\n{}"
    assert list(frames(BytesIO(stream))) == [b"{}", b"\r\n\r\n"]


def test_writing_to_an_editor_that_is_gone_tells_and_does_not_raise() -> None:
    lost: list[bool] = []
    stream = BytesIO()
    stream.close()
    output = Output(stream, lambda: lost.append(True))
    output.write(b"x")
    assert lost == [True]


@pytest.mark.parametrize("length", [MAX_BODY_BYTES + 1, 10**23 - 1, "9" * 5000], ids=["64 MiB", "overflow", "digits"])
async def test_a_frame_too_long_to_be_true_ends_the_stream(length: object) -> None:
    """The server then ends too: it would never hear of anything again."""
    ended, received = asyncio.Event(), []
    stream = b"Content-Length: 2\r\n\r\n{}Content-Length: %s\r\n\r\n{}" % str(length).encode()
    read_in_thread(BytesIO(stream), received.append, ended.set)
    async with asyncio.timeout(10):
        await ended.wait()
    assert received == [b"{}"]


async def test_a_stream_that_breaks_ends_the_server() -> None:
    class Broken(BytesIO):
        def readline(self, *_: object) -> bytes:
            raise MemoryError

    ended = asyncio.Event()
    read_in_thread(Broken(), lambda _: None, ended.set)
    async with asyncio.timeout(10):
        await ended.wait()

"""Frames are read whole, however the stream is cut; anything else ends the stream."""

import asyncio
import random

import pytest

from lsp_server.lsp.transports import MAX_BODY_BYTES, FrameError, framed, frames


async def bodies_of(*pieces: bytes) -> list[bytes]:
    reader = asyncio.StreamReader()

    async def feed() -> None:
        for piece in pieces:
            reader.feed_data(piece)
            await asyncio.sleep(0)
        reader.feed_eof()

    feeding = asyncio.create_task(feed())
    found = [body async for body in frames(reader)]
    await feeding
    return found


@pytest.mark.parametrize(
    "stream",
    [
        b"Content-Length: 2\r\n\r\n{}",
        b"content-length:2\r\n\r\n{}",
        b"Content-Type: x; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}",
        b"Content-Length: 2\r\nContent-Type: x\r\n\r\n{}",
    ],
)
async def test_one_frame(stream: bytes) -> None:
    assert await bodies_of(stream) == [b"{}"]


async def test_however_the_stream_is_cut_the_bodies_are_the_same() -> None:
    chance = random.Random(0)
    bodies = [chance.randbytes(chance.randrange(40)) for _ in range(50)]
    stream = b"".join(map(framed, bodies))
    for _ in range(20):
        pieces = []
        at = 0
        while at < len(stream):
            size = chance.choice([1, 2, 7, 300])
            pieces.append(stream[at : at + size])
            at += size
        assert await bodies_of(*pieces) == bodies


@pytest.mark.parametrize(
    "stream",
    [
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
        b"Content-Length: five\r\n\r\n",
        b"Content-Length: -5\r\n\r\n",
        b"Content-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1),
        b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"x" * 100_000,
    ],
)
async def test_what_is_no_frame_is_refused_unread(stream: bytes) -> None:
    with pytest.raises(FrameError):
        await bodies_of(stream)

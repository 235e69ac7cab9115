"""Frames are read whole, however the stream is cut; anything else ends the stream. Where `--http` listens."""

import argparse
import asyncio
import random

import pytest

from lsp_server.commands.serve import ListenAddress, parse_listen_address
from lsp_server.lsp.transports import MAX_BODY_BYTES, FrameError, encode_lsp_frame, read_frames


async def bodies_of(*pieces: bytes) -> list[bytes]:
    reader = asyncio.StreamReader()

    async def feed() -> None:
        for piece in pieces:
            reader.feed_data(piece)
            await asyncio.sleep(0)
        reader.feed_eof()

    feeding = asyncio.create_task(feed())
    found = [body async for body in read_frames(reader)]
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
    stream = b"".join(map(encode_lsp_frame, bodies))
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


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("2087", ListenAddress("127.0.0.1", 2087)),
        (":0", ListenAddress("127.0.0.1", 0)),
        ("localhost:65535", ListenAddress("localhost", 65535)),
        ("[::1]:80", ListenAddress("::1", 80)),
        ("0.0.0.0:80", ListenAddress("0.0.0.0", 80)),
    ],
)
def test_a_port_with_or_without_a_host(text: str, address: ListenAddress) -> None:
    assert parse_listen_address(text) == address
    assert parse_listen_address(str(address)) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "65536", "-1", "1.5", "²", "9" * 5000])
def test_what_is_no_port_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse_listen_address(text)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_only_this_machine_reaches_loopback(host: str, is_loopback: bool) -> None:
    assert ListenAddress(host, 1).resolved().is_loopback is is_loopback

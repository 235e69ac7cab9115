"""Frames are read whole, however the stream is cut; anything else ends the stream."""

import random

import pytest

from lsp_server.lsp.transports import MAX_BODY_BYTES, MAX_HEADER_BYTES, FrameError, Frames, framed


@pytest.mark.parametrize(
    "stream",
    [
        b"Content-Length: 2\r\n\r\n{}",
        b"content-length:2\r\n\r\n{}",
        b"Content-Type: x; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}",
        b"Content-Length: 2\r\nContent-Type: x\r\n\r\n{}",
    ],
)
def test_one_frame(stream: bytes) -> None:
    assert list(Frames().feed(stream)) == [b"{}"]


def test_however_the_stream_is_cut_the_bodies_are_the_same() -> None:
    chance = random.Random(0)
    bodies = [chance.randbytes(chance.randrange(40)) for _ in range(50)]
    stream = b"".join(map(framed, bodies))
    for _ in range(20):
        frames, found, at = Frames(), [], 0
        while at < len(stream):
            size = chance.choice([1, 2, 7, 300])
            found += frames.feed(stream[at : at + size])
            at += size
        assert found == bodies


@pytest.mark.parametrize(
    "stream",
    [
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
        b"Content-Length: five\r\n\r\n",
        b"Content-Length: -5\r\n\r\n",
        b"Content-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1),
        b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"x" * MAX_HEADER_BYTES,
    ],
)
def test_what_is_no_frame_is_refused_unread(stream: bytes) -> None:
    with pytest.raises(FrameError):
        list(Frames().feed(stream))

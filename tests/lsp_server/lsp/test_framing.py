"""Frames are read whole, whatever their headers look like and however the stream is cut."""

import random

import pytest

from lsp_server.lsp.transports import MAX_BODY_BYTES
from lsp_server.lsp.transports.framing import MAX_HEADER_BYTES, FrameError, Frames, framed


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
@pytest.mark.parametrize("strict", [False, True])
def test_one_frame(stream: bytes, strict: bool) -> None:
    assert list(Frames(strict=strict).feed(stream)) == [b"{}"]


def test_cut_frame_is_waited_for() -> None:
    frames = Frames()
    stream = b"Content-Length: 2\r\n\r\n{}Content-Length: 4\r\n\r\n\r\n\r\nContent-Length: 9\r\n\r\n{}"
    assert list(frames.feed(stream)) == [b"{}", b"\r\n\r\n"]
    assert list(frames.feed(b"1234567")) == [b"{}1234567"]


def test_however_the_stream_is_cut_the_bodies_are_the_same() -> None:
    chance = random.Random(0)
    bodies = [chance.randbytes(chance.randrange(40)) for _ in range(50)]
    stream = b"".join(map(framed, bodies))
    for _ in range(20):
        frames, found, at = Frames(strict=True), [], 0
        while at < len(stream):
            size = chance.choice([1, 2, 7, 300])
            found += frames.feed(stream[at : at + size])
            at += size
        assert found == bodies


@pytest.mark.parametrize(
    "wrong",
    [
        b"Content-Length: 5\r\n\r\n",
        b"Content-Length: 0\r\n\r\n",
        b"Content-Length: -5\r\n\r\n",
        b"Content-Length: five\r\n\r\n",
        b"Content-Length: 5 5\r\n\r\n",
        b"Content-Length: 90\r\n\r\n",
        b"\r\n",
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_after_a_wrong_length_the_stream_is_found_again(wrong: bytes, size: int) -> None:
    """It would be read as headers for ever, and nobody be answered any more."""
    good = [b'{"id": %d}' % number for number in range(6)]
    stream = wrong + b'{"id": 99, "method": "Content-Length: 4"}' + b"".join(map(framed, good))
    frames = Frames()
    found = [body for at in range(0, len(stream), size) for body in frames.feed(stream[at : at + size])]
    assert found[-3:] == good[-3:]


def test_unknown_headers_are_skipped_or_refused() -> None:
    stream = b"X-Mine: 5\r\nContent-Length: 2\r\n\r\n{}"
    assert list(Frames().feed(stream)) == [b"{}"]
    with pytest.raises(FrameError):
        list(Frames(strict=True).feed(stream))


@pytest.mark.parametrize("length", [MAX_BODY_BYTES + 1, 10**23 - 1, "9" * 5000], ids=["64 MiB", "overflow", "digits"])
def test_oversized_frame_is_refused_unread(length: object) -> None:
    head = b"Content-Length: %s\r\n\r\n" % str(length).encode()
    with pytest.raises(FrameError):
        list(Frames(strict=True).feed(head))
    assert list(Frames().feed(head + b"{}" + framed(b"[]") + framed(b"{}"))) == [b"[]", b"{}"], "the next ones are read"


def test_a_header_without_end_is_not_collected_for_ever() -> None:
    strict, frames = Frames(strict=True), Frames()
    with pytest.raises(FrameError):
        for _ in range(MAX_HEADER_BYTES // 1000 + 2):
            list(strict.feed(b"x" * 1000))
    for _ in range(200):
        assert list(frames.feed(b"x" * 1000)) == []
    assert list(frames.feed(b"\r\n" + framed(b"{}"))) == [b"{}"]


@pytest.mark.parametrize("size", [1, 7, 1000, 10**6])
@pytest.mark.parametrize("end", [b"\r\n", b" ", b""])
def test_behind_a_header_of_any_length_the_next_is_found(size: int, end: bytes) -> None:
    """Also where no line end stands between the two."""
    stream = b"X-Mine: " + b"-" * 200_000 + end + framed(b"{}") + framed(b"[]")
    frames = Frames()
    assert [body for at in range(0, len(stream), size) for body in frames.feed(stream[at : at + size])][-1] == b"[]"

"""Frames are read whole, whatever their headers look like."""

from io import BytesIO

import pytest

from lsp_server.stdio import Output, frames


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

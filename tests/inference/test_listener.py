"""A worker's socket is opened whole or not at all."""

import sys
from pathlib import Path

import pytest

from inference.serving.listener import Listener


class OfNoMode(type(Path())):  # type: ignore[misc]
    """A path on a file system that does not let anyone say who may use a file."""

    def chmod(self, mode: int, *, follow_symlinks: bool = True) -> None:
        raise PermissionError(1, "Operation not permitted")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts what this process has open")
async def test_a_socket_that_cannot_be_made_private_is_closed_again(tmp_path: Path) -> None:
    listener = Listener(OfNoMode(tmp_path / "w.sock"), "unix", lambda reader, writer: None)  # type: ignore[arg-type, return-value]
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):  # as a worker tries again every second
        with pytest.raises(PermissionError):
            await listener.open()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert not listener.stands

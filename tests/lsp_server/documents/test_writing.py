"""A file keeps its attributes when its text is replaced, and a crash or an error loses no text."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from lsp_server.documents.reading import NEW_FILE_PREFIX, BadInputError, overwrite_file
from tests.workers import PATIENCE_S, short_folder

NOBODY = 65_534
OLD, NEW = "old\n" * 100, "new text\n" * 200
needs_root = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root may give files away")
REPLACER = """
import resource, sys
from itertools import cycle, pairwise
from pathlib import Path
from lsp_server.documents.reading import overwrite_file
file, texts = Path(sys.argv[1]), ["old\\n" * 100, "new text\\n" * 200]
if limit := int(sys.argv[2]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
print("ready", flush=True)
for old, new in pairwise(cycle(texts)):
    overwrite_file(file, file, old, new)
"""
"""A process that does nothing else; its second argument is the most bytes that a file of its may have, or 0."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may look into, unlike pytest's own."""
    with short_folder() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def file(folder: Path) -> Path:
    path = folder / "main.py"
    path.write_text(OLD)
    return path


def replaced(file: Path) -> str:
    """What the file holds afterwards; nothing lies beside it that was not there."""
    before = set(file.parent.iterdir())
    overwrite_file(file, file, OLD, NEW)
    assert set(file.parent.iterdir()) == before
    return file.read_text()


@contextmanager
def as_nobody() -> Iterator[None]:
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def test_a_file_with_several_names_is_left_alone(file: Path) -> None:
    other = file.parent / "other.py"
    other.hardlink_to(file)
    with pytest.raises(BadInputError, match="several names"):
        overwrite_file(file, file, OLD, NEW)
    assert file.read_text() == other.read_text() == OLD


def test_attributes_are_kept(file: Path) -> None:
    try:
        os.setxattr(file, "user.note", b"mine")
    except (AttributeError, OSError):
        pytest.skip("this file system has no attributes")
    assert replaced(file) == NEW
    assert os.getxattr(file, "user.note") == b"mine"


@needs_root
def test_the_owner_is_kept(file: Path) -> None:
    os.chown(file, NOBODY, NOBODY)
    assert replaced(file) == NEW
    assert (file.stat().st_uid, file.stat().st_gid) == (NOBODY, NOBODY)


@needs_root
def test_a_file_that_is_not_ours_is_left_as_it_was(file: Path) -> None:
    file.parent.chmod(0o777)
    file.chmod(0o666)
    with as_nobody(), pytest.raises(BadInputError, match="left as it was"):
        overwrite_file(file, file, OLD, NEW)
    assert (file.stat().st_uid, file.read_text(), len(list(file.parent.iterdir()))) == (0, OLD, 1)


@pytest.mark.parametrize("name", ["n" * 250, "é" * 125 + ".py"])
def test_a_name_may_be_as_long_as_names_can_be(folder: Path, name: str) -> None:
    file = folder / name
    file.write_text(OLD)
    assert replaced(file) == NEW


def test_what_someone_else_has_changed_is_not_overwritten(file: Path) -> None:
    with pytest.raises(BadInputError, match="changed by someone else"):
        overwrite_file(file, file, "another\n", NEW)
    assert file.read_text() == OLD


def test_a_file_that_cannot_be_written_whole_is_as_it_was(file: Path) -> None:
    """The limit on a process' files acts like a full disk: its error comes while it writes."""
    limit = (len(OLD) + len(NEW)) // 2
    words = [sys.executable, "-c", REPLACER, str(file), str(limit)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert "File too large; it was left as it was" in done.stderr
    assert file.read_text() == OLD
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_ending_writer_leaves_a_whole_file(file: Path, sent: signal.Signals) -> None:
    for attempt in range(5):
        file.write_text(OLD)
        process = subprocess.Popen([sys.executable, "-c", REPLACER, str(file), "0"], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(attempt / 20)
        process.send_signal(sent)
        process.communicate(timeout=PATIENCE_S)
        assert file.read_text() in (OLD, NEW)


SAVED = "what somebody else saved\n"


def test_what_somebody_saves_meanwhile_is_not_lost(file: Path) -> None:
    """Saved while a new file is written to take its place, or just after that: tried until it came before."""
    is_refused = False
    while not is_refused:
        file.write_text(OLD)
        done = Event()
        saving = Thread(target=save_meanwhile, args=(file, done))
        saving.start()
        try:
            overwrite_file(file, file, OLD, "n" * 16_000_000)
        except BadInputError as refusal:
            is_refused = "changed by someone else" in str(refusal)
        done.set()
        saving.join()
        assert file.read_text() == SAVED
        assert list(file.parent.iterdir()) == [file]


def save_meanwhile(file: Path, done: Event) -> None:
    """Saves as soon as there is a new file, or it is too late."""
    saved = file.parent.with_suffix(".saved")
    saved.write_text(SAVED)
    while not done.is_set() and not list(file.parent.glob(f"{NEW_FILE_PREFIX}*")):
        pass
    saved.replace(file)

"""The file of the numbers: private, whole after a kill, shared by several writers; a bad one is set aside whole."""

import sqlite3
import stat
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from lsp_server.cli import main
from lsp_server.commands.stats import forget
from lsp_server.usage import store
from lsp_server.usage.connection import UsageConnection
from lsp_server.usage.events import Answered, Decided, Event, Look
from lsp_server.usage.place import STATE_VARIABLE
from lsp_server.usage.reading import read
from lsp_server.usage.set_aside import APPLICATION_ID, is_plain, set_aside
from lsp_server.usage.store import KEPT_DAYS, VERSION, UsageFileError, open_store
from lsp_server.usage.writer import MOST_WAITING, UsageWriter
from tests.lsp_server.usage.events import compared, suggestion

KILLS = 20
PATIENCE_S = 60.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state/usage/usage.sqlite"


def written(file: Path, events: list[Event]) -> list[str]:
    """Write events; what there was to say about it."""
    said: list[str] = []
    connection = UsageConnection(lambda: file, said.append)
    assert connection.write(events)
    connection.close()
    return said


def held(file: Path) -> bytes:
    """All that is in the folder of the file."""
    return b"".join(part.read_bytes() for part in file.parent.iterdir())


def keys(file: Path) -> list[int]:
    return [found.key for found in read(file, 0).suggestions]


def test_file_and_folder_are_private(file: Path) -> None:
    connection, _ = open_store(file)
    with closing(connection):
        store.write(connection, suggestion(1))
        modes = {stat.S_IMODE(found.stat().st_mode) for found in file.parent.iterdir()}
        assert (modes, stat.S_IMODE(file.parent.stat().st_mode)) == ({0o600}, 0o700)
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_file_that_others_could_read_is_closed_to_them(file: Path) -> None:
    written(file, suggestion(1))
    file.chmod(0o644)
    written(file, suggestion(2))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_kill_at_any_moment_leaves_whole_records(file: Path) -> None:
    words = [sys.executable, "-m", "tests.lsp_server.usage.killed_writers", str(file), str(KILLS)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    told = [int(line) for line in done.stdout.split()]
    assert len(told) == KILLS
    assert sum(told) > 0
    recorded = read(file, 0)
    assert recorded.moved == ""
    for number, at_least in enumerate(told):
        mine = [found for found in recorded.suggestions if found.key // 1_000_000 == number]
        assert at_least <= len(mine) <= at_least + 3
        assert len(mine) % 3 == 0
        assert {(found.outcome, found.similarity_at_save) for found in mine} <= {("whole", 1.0)}
    assert len(recorded.answers) == len(recorded.suggestions)
    with closing(sqlite3.connect(file)) as connection:
        joined = "SELECT pair.key, suggestion, main_at_save FROM pair JOIN pair_hole ON pair = pair.key"
        pairs = connection.execute(joined)
        assert sorted(pairs) == sorted((found.key, found.key, 1.0) for found in recorded.suggestions)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_several_processes_write_at_once(file: Path) -> None:
    """Here threads, each with a connection of its own; SQLite locks the file for them as for processes."""
    ranges = [range(number * 100, number * 100 + 30) for number in range(4)]
    said: list[str] = []

    def run(mine: range) -> None:
        connection = UsageConnection(lambda: file, said.append)
        for key in mine:
            while not connection.write(suggestion(key)):
                pass  # the others took longer than SQLite waits
        connection.close()

    threads = [threading.Thread(target=run, args=(mine,)) for mine in ranges]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(keys(file)) == sorted(key for mine in ranges for key in mine)
    assert said == []


def test_a_file_that_comes_and_goes_is_plain(tmp_path: Path) -> None:
    part, over = tmp_path / "usage.sqlite-wal", threading.Event()

    def toggle() -> None:
        while not over.is_set():
            part.write_bytes(b"")
            part.unlink()

    toggling = threading.Thread(target=toggle)
    toggling.start()
    try:
        assert all(is_plain(part) for _ in range(20_000))
    finally:
        over.set()
        toggling.join()


@pytest.mark.parametrize(
    "contents", [b"not a database, but a diary of some length\n" * 50, b"SQLite format 3\0" + b"x" * 5000]
)
def test_file_that_is_no_database_is_moved_aside(file: Path, contents: bytes) -> None:
    file.parent.mkdir(parents=True, mode=0o700)
    file.write_bytes(contents)
    (said,) = written(file, suggestion(1))
    assert "usage.sqlite.set-aside-1" in said
    assert file.with_name("usage.sqlite.set-aside-1").read_bytes() == contents
    assert keys(file) == [1]
    assert written(file, suggestion(2)) == []


def damage(file: Path, offset: int, value: int) -> None:
    """Change one byte of a file that nobody has open."""
    with file.open("r+b") as raw:
        raw.seek(offset)
        raw.write(bytes([value]))


@pytest.mark.parametrize("value", [0, 9, 255])
def test_damaged_header_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: int) -> None:
    """44 to 47: format of the schema; 18, 19: for writing and reading; 60 to 63: our version, maybe a newer one."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    file = tmp_path / "usage/usage.sqlite"
    texts = ("mainly", "otherwise", "standing")
    for offset in {*range(0, 100, 7), 18, 19, *range(44, 48), *range(60, 63)} - {63}:
        written(file, [*suggestion(1), *compared(1, texts=texts)])
        damage(file, offset, value)
        foreseen = store.trouble_with(file)
        assert bool(written(file, suggestion(2))) is bool(foreseen), (offset, foreseen)
        assert 2 in keys(file), offset
        assert forget("stats", store.forget, "{file}") == 0
        assert not [word for word in texts if word.encode() in held(file)], offset
        assert set_aside(file) == []


def test_what_was_never_ours_is_left_when_all_is_forgotten(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(file.parent.parent))
    file.parent.mkdir(parents=True, mode=0o700)
    (file.parent / "usage.sqlite.set-aside-notes").write_text("mine")
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE suggestion (something)")
    written(file, suggestion(1))
    file.unlink()
    file.symlink_to(file.parent.parent / "precious")
    (file.parent.parent / "precious").write_text("")
    written(file, suggestion(1))
    assert forget("stats", store.forget, "{file}") == 0
    assert (file.parent.parent / "precious").read_text() == "", "a link in its place is not followed"
    names = ["usage.sqlite.set-aside-1", "usage.sqlite.set-aside-2", "usage.sqlite.set-aside-notes"]
    assert sorted(part.name for part in file.parent.glob("*.set-aside-*")) == names


def test_damage_in_use_loses_nothing_new(file: Path) -> None:
    said: list[str] = []
    connection = UsageConnection(lambda: file, said.append)
    assert connection.write([event for key in range(500) for event in suggestion(key)])
    with closing(sqlite3.connect(file)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with file.open("r+b") as raw:
        raw.seek(100)
        raw.write(b"\xff" * 30_000)
    damaged = file.read_bytes()
    assert connection.write(suggestion(1000))
    connection.close()
    assert len(said) == 1
    assert keys(file) == [1000]
    assert file.with_name("usage.sqlite.set-aside-1").read_bytes() == damaged


def test_a_database_of_another_program_is_moved_aside_whole(file: Path) -> None:
    file.parent.mkdir(parents=True, mode=0o700)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE suggestion (something)")
        connection.execute("INSERT INTO suggestion VALUES ('else')")
    (said,) = written(file, suggestion(1))
    assert "another program" in said
    with closing(sqlite3.connect(file.with_name("usage.sqlite.set-aside-1"))) as connection:
        assert connection.execute("SELECT * FROM suggestion").fetchall() == [("else",)]


def test_the_file_of_a_newer_version_is_left_alone(file: Path) -> None:
    written(file, suggestion(1))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = file.read_bytes()
    said: list[str] = []
    assert not UsageConnection(lambda: file, said.append).write(suggestion(2))
    assert "newer infill-ls" in said[0]
    assert file.read_bytes() == before
    with pytest.raises(UsageFileError, match="newer"):
        read(file, 0)


def test_a_newer_file_is_forgotten_with_everything(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(file.parent.parent))
    for command, status in ((["shadow", "forget"], 1), (["stats", "forget"], 0)):
        written(file, suggestion(1))
        with closing(sqlite3.connect(file)) as connection:
            connection.execute(f"PRAGMA user_version = {VERSION + 1}")
        before = file.read_bytes()
        assert main(command) == status
        assert (file.read_bytes() == before) is bool(status)
        if status:
            file.unlink()
    assert (keys(file), set_aside(file)) == ([], [])


@pytest.mark.parametrize("name", ["usage.sqlite-wal", "usage.sqlite-shm", "usage.sqlite-journal", "usage.lock"])
@pytest.mark.parametrize("is_link", [True, False])
def test_what_is_in_the_way_beside_the_file_is_named(file: Path, name: str, is_link: bool) -> None:
    written(file, suggestion(1))
    place = file.with_name(name)
    place.unlink(missing_ok=True)
    if is_link:
        place.symlink_to(file.with_name("elsewhere"))
    else:
        place.mkdir()
    for ask in (open_store, store.trouble_with):
        with pytest.raises(UsageFileError, match=f"{name}: it is not a regular file.*; remove it"):
            ask(file)


def test_a_file_that_was_deleted_is_begun_again(file: Path) -> None:
    said: list[str] = []
    connection = UsageConnection(lambda: file, said.append)
    connection.write(suggestion(1))
    for part in file.parent.iterdir():
        part.unlink()
    assert connection.write(suggestion(2))
    connection.close()
    assert (keys(file), said) == ([2], [])


def test_a_folder_that_others_can_enter_is_not_used(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.parent.chmod(0o755)
    said: list[str] = []
    assert not UsageConnection(lambda: file, said.append).write(suggestion(1))
    assert "chmod 700" in said[0]
    with pytest.raises(UsageFileError, match="chmod 700"):
        store.trouble_with(file)


def test_what_is_older_than_is_kept_goes(file: Path) -> None:
    old_s = time.time() - (KEPT_DAYS + 1) * 86_400
    written(file, [*suggestion(1, at_s=old_s), *suggestion(2)])
    connection, _ = open_store(file)
    connection.close()
    assert keys(file) == [2]
    assert [answer.suggestion for answer in read(file, 0).answers] == [2]


def test_forgotten_bytes_are_overwritten(file: Path) -> None:
    wanted = 0x1234567890ABCDE.to_bytes(8, "big")
    server = UsageConnection(lambda: file, print)  # which goes on running
    assert server.write([event for key in range(1000) for event in suggestion(0x1234567890ABCDE + key)])
    with closing(sqlite3.connect(file)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = file.stat().st_size
    assert wanted in held(file)
    connection, _ = open_store(file)
    with closing(connection):
        assert store.forget(connection) == 1000
    assert wanted not in held(file)
    assert file.stat().st_size < size / 2
    server.close()
    written(file, [Answered(0x1234567890ABCDE, True, None, 1.0), Decided(0x1234567890ABCDE, "whole", 3)])
    recorded = read(file, 0)
    assert (recorded.suggestions, recorded.answers) == ([], [])


def test_adding_never_waits_and_counts_overflow(file: Path) -> None:
    """The thread finds no file until there are more events than may wait."""
    found = threading.Event()

    def find() -> Path:
        found.wait(PATIENCE_S)
        return file

    said: list[str] = []
    writer = UsageWriter(find, said.append)
    total = 3 * MOST_WAITING
    for key in range(total):
        writer.add(suggestion(key)[0])
    found.set()
    writer.close(PATIENCE_S)
    recorded = read(file, 0)
    assert said == []
    assert 0 < recorded.lost < total
    assert len(recorded.suggestions) + recorded.lost == total


def test_what_cannot_be_written_is_told_and_written_once_it_can(tmp_path: Path) -> None:
    in_the_way = tmp_path / "state"
    in_the_way.write_text("")
    file, said = in_the_way / "usage/usage.sqlite", []
    told = threading.Event()

    def tell(message: str) -> None:
        said.append(message)
        told.set()

    writer = UsageWriter(lambda: file, tell)
    for event in suggestion(1):
        writer.add(event)
    assert told.wait(PATIENCE_S)
    for event in suggestion(2):
        writer.add(event)
    in_the_way.unlink()
    writer.close(PATIENCE_S)
    assert sorted(keys(file)) == [1, 2]
    assert len(said) == 1
    assert str(file) in said[0]


def test_the_numbers_do_not_wait_for_texts_to_be_compared(file: Path) -> None:
    """So a big batch is in the file although the process ends while it compares."""
    letters = "abcdefghij" * 2_000
    writer = UsageWriter(lambda: file, print)
    for key in range(5):
        for event in suggestion(key)[:3]:
            writer.add(event)
        writer.add(Look(key, "save", letters, letters[::-1]))
    deadline = time.monotonic() + PATIENCE_S
    while not (file.exists() and (found := read(file, 0).suggestions)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert {(each.outcome, each.similarity_at_save) for each in found} == {("whole", None)}
    writer.close(PATIENCE_S)
    assert all(each.similarity_at_save for each in read(file, 0).suggestions)


def test_older_version_of_the_file_is_upgraded(file: Path) -> None:
    file.parent.mkdir(parents=True, mode=0o700)
    make_first_version(file)
    assert written(file, [*suggestion(2), *compared(2)]) == []
    recorded = read(file, 0)
    found = [(one.key, one.outcome, one.similarity_at_save) for one in recorded.suggestions]
    assert found == [(1, "whole", 0.5), (2, "whole", 1.0)]
    assert [answer.suggestion for answer in recorded.answers] == [1, 2]
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert connection.execute("SELECT suggestion, main_at_save FROM pair_hole").fetchall() == [(2, 1.0)]


def test_of_a_suggestion_that_is_forgotten_nothing_is_compared(file: Path) -> None:
    written(file, compared(1))
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT count(*) FROM pair").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM pair_hole").fetchone() == (0,)


def test_no_text_of_either_model_is_in_the_file(file: Path) -> None:
    written(file, [*suggestion(1), *compared(1, texts=("mainly\ud800", "otherwise", "standing"))])
    assert not [word for word in (b"mainly", b"otherwise", b"standing") if word in held(file)]


def test_forgetting_pairs_overwrites_their_bytes(file: Path) -> None:
    server = UsageConnection(lambda: file, print)  # which goes on running
    for key in range(1, 50):
        assert server.write([*suggestion(key), *compared(key)])
    before, *looks = compared(2)
    connection, _ = open_store(file)
    with closing(connection):
        assert store.forget_pairs(connection) == 49
    assert b"partner" not in held(file), "the name of a model that was compared"
    assert len(keys(file)) == 49
    assert server.write(compared(1)[1:])  # a look at what is forgotten
    assert server.write([before, *looks])  # what it had not written yet
    assert b"partner" not in held(file), "the name of a model that was compared"
    assert server.write([replace(before, key=99, at_s=time.time())])
    server.close()
    with closing(sqlite3.connect(file)) as other:
        assert other.execute("SELECT key FROM pair").fetchall() == [(99,)]


def test_blocked_overwrite_is_reported(file: Path) -> None:
    written(file, [*suggestion(1), *compared(1)])
    connection, _ = open_store(file)
    connection.execute("PRAGMA busy_timeout = 50")
    with closing(connection), closing(sqlite3.connect(file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM pair").fetchone()
        with pytest.raises(UsageFileError, match="another program reads .* run this again"):
            store.forget_pairs(connection)
        reader.execute("COMMIT")
        assert store.forget_pairs(connection) == 0
        assert b"partner" not in held(file), "the name of a model that was compared"


def make_first_version(file: Path) -> None:
    """The file as version 1 of it was made, with one suggestion."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.executescript(
            f"""
            PRAGMA journal_mode = WAL;
            CREATE TABLE suggestion (
                key INTEGER PRIMARY KEY, at_s REAL NOT NULL, language TEXT NOT NULL, kind TEXT NOT NULL,
                trigger TEXT NOT NULL, confidence REAL, characters INTEGER NOT NULL, outcome TEXT,
                taken_characters INTEGER NOT NULL DEFAULT 0, similarity_at_save REAL, similarity_later REAL
            );
            CREATE INDEX suggestion_at ON suggestion (at_s);
            CREATE TABLE answer (
                suggestion INTEGER NOT NULL REFERENCES suggestion ON DELETE CASCADE, remembered INTEGER NOT NULL,
                first_draft_ms REAL, whole_ms REAL NOT NULL
            );
            CREATE INDEX answer_of ON answer (suggestion);
            CREATE TABLE lost (at_s REAL NOT NULL, events INTEGER NOT NULL);
            PRAGMA application_id = {APPLICATION_ID};
            PRAGMA user_version = 1;
            INSERT INTO suggestion
            VALUES (1, {time.time() - 5}, 'python', 'line', 'typing', 0.5, 9, 'whole', 9, 0.5, NULL);
            INSERT INTO answer VALUES (1, 0, NULL, 30.0);
            """
        )
    file.chmod(0o600)

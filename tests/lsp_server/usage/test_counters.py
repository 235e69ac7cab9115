"""The file of counters: several writers, what is in its way, and forgetting."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path

import pytest

from lsp_server.cli import main
from lsp_server.usage import statistics
from lsp_server.usage.statistics import STATE_VARIABLE, CounterKey, StatisticsWriter, today, usage_file
from tests.lsp_server.usage.records import counts
from tests.workers import until

KEY = CounterKey(today(), "python", "typing", "shown")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    return usage_file()


def test_concurrent_writers_lose_no_count(file: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: statistics.add_counts(file, {KEY: 1}), range(12)))
    assert counts() == {KEY: 12}
    assert file.stat().st_mode & 0o077 == 0 and file.parent.stat().st_mode & 0o077 == 0


def test_old_counts_are_neither_reported_nor_kept_for_ever(file: Path) -> None:
    days = [(date.today() - timedelta(days=ago)).isoformat() for ago in (0, 40, statistics.KEPT_DAYS + 2)]
    statistics.add_counts(file, {KEY._replace(day=day): 1 for day in days})
    assert [key.day for key in counts(30)] == days[:1]
    assert len(counts(10_000)) == len(counts(10_000_000)) == 2


@pytest.mark.parametrize("what", ["damaged", "pipe", "link", "folder"])
async def test_what_is_in_the_way_is_told_once_and_left_alone(file: Path, what: str) -> None:
    file.parent.mkdir(parents=True, mode=0o700)
    elsewhere = file.with_name("elsewhere")
    if what == "damaged":
        file.write_bytes(b"no database, but long enough to be read as one" * 100)
    elif what == "pipe":
        os.mkfifo(file)
    elif what == "link":
        file.symlink_to(elsewhere)
    else:
        file.mkdir()
    told: list[str] = []
    writer = StatisticsWriter(told.append)
    writer.count(KEY)
    await until(lambda: told)
    assert str(file) in told[0] and "stats forget" in told[0] and "`statistics`" in told[0]
    assert not elsewhere.exists()
    if what != "folder":
        assert [each for each in statistics.delete_files(file) if each == file]
        assert writer.count(KEY) is None
        await writer.ended()
        assert counts() == {KEY: 2}, "what could not be written is not lost"


def test_forgetting_deletes_what_sqlite_left_too(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    statistics.add_counts(file, {KEY: 3})
    journal = file.with_name(f"{file.name}-journal")
    assert main(["stats", "--json"]) == 0
    (total,) = json.loads(capsys.readouterr().out)["total"]
    assert (total["shown"], total["mean ms"]) == (3, None)
    journal.touch()
    assert main(["stats", "forget"]) == 0
    assert list(file.parent.iterdir()) == []
    assert main(["stats"]) == 3


def test_a_damaged_file_is_no_traceback(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.parent.mkdir(parents=True, mode=0o700)
    file.write_bytes(b"no database, but long enough to be read as one" * 100)
    assert main(["stats"]) == 1
    assert "stats forget" in capsys.readouterr().err


@pytest.mark.parametrize("days", ["0", "-3", "1.5", "many"])
def test_a_number_of_days_that_covers_none_is_refused(days: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["stats", "--days", days])
    assert refused.value.code == 2
    assert "argument --days: " in (said := capsys.readouterr().err) and "a whole number from 1" in said

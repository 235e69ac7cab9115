"""300 suggestions with known numbers, 75 of each kind: the report is what follows from them."""

import json
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lsp_server.cli import main
from lsp_server.usage.events import Answered, Decided, Event, Look, Lost, Outcome, Shown
from lsp_server.usage.place import STATE_VARIABLE, usage_file
from lsp_server.usage.writer import UsageWriter
from tests.lsp_server.usage.events import record

EACH = 75
DAY_S = 86_400


@dataclass
class Simulated:
    """One suggestion. Of ten letters of it, `at_save` and `later` still stood."""

    language: str
    kind: str
    whole_ms: float
    draft_ms: float | None = None
    remembered_ms: float | None = None
    outcome: Outcome | None = None
    taken: int = 0
    at_save: int | None = None
    later: int | None = None
    days_ago: float = 1.0
    key: int = 0

    def events(self) -> list[Event]:
        """As a session tells them."""
        at_s = time.time() - self.days_ago * DAY_S
        told: list[Event] = [Shown(self.key, at_s, self.language, self.kind, "typing", 0.5, 10)]
        told.append(Answered(self.key, False, self.draft_ms, self.whole_ms))
        if self.remembered_ms is not None:
            told.append(Answered(self.key, True, None, self.remembered_ms))
        if self.outcome:
            told.append(Decided(self.key, self.outcome, self.taken))
        if self.at_save is not None:
            told.append(Look(self.key, "save", "a" * 10, "a" * self.at_save))
        if self.later is not None:
            told.append(Look(self.key, "later", "a" * 10, "a" * self.later))
        return told


KINDS = (
    Simulated("python", "line", 100.0, draft_ms=25.0, remembered_ms=2.0, outcome="whole", taken=10, at_save=9),
    Simulated("rust", "body", 300.0, outcome="part", taken=8, at_save=10, later=5),
    Simulated("python", "line", 50.0, outcome="rejected"),
    Simulated("go", "body", 400.0, outcome="whole", taken=4, days_ago=9.0),
)
SIMULATED = [Simulated(**{**vars(kind), "key": 4 * copy + at}) for copy in range(EACH) for at, kind in enumerate(KINDS)]
TOTAL = {
    "shown": 4 * EACH,
    "whole": 2 * EACH,
    "part": EACH,
    "rejected": EACH,
    "neither": 0,
    "taken_characters": 22 * EACH,
    "at_save": {"seen": 2 * EACH, "similarity": 0.95, "unchanged": EACH},
    "later": {"seen": EACH, "similarity": 0.5, "unchanged": 0},
    "kept_characters": (9 + 4) * EACH,
    "unseen_characters": 4 * EACH,
    "saved_s": pytest.approx((9 + 4) * EACH / 200 * 60, abs=0.1),
    "latency_ms": {
        "computed": {
            "first_draft": {"answers": EACH, "p50": 25.0, "p95": 25.0, "p99": 25.0},
            "whole": {"answers": 4 * EACH, "p50": 200.0, "p95": 400.0, "p99": 400.0},
        },
        "remembered": {
            "first_draft": {"answers": 0, "p50": None, "p95": None, "p99": None},
            "whole": {"answers": EACH, "p50": 2.0, "p95": 2.0, "p99": 2.0},
        },
    },
}


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `infill-ls stats --json` says of them."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    record(SIMULATED)
    assert main(["stats", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_report_is_what_was_recorded(found: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert (found["total"], found["lost_events"]) == (TOTAL, 0)
    assert found["by_trigger"] == {"typing": TOTAL}
    for group, shown in {
        "by_language": {"go": EACH, "python": 2 * EACH, "rust": EACH},
        "by_kind": {"body": 2 * EACH, "line": 2 * EACH},
        "by_day": {day(9): EACH, day(1): 3 * EACH},
    }.items():
        assert {name: figures["shown"] for name, figures in found[group].items()} == shown
        assert list(found[group]) == list(shown)
    assert found["by_language"]["rust"]["latency_ms"]["computed"]["whole"]["p50"] == 300.0
    assert main(["stats", "--json", "--days", "7"]) == 0, "only the last days count"
    assert json.loads(capsys.readouterr().out)["total"]["shown"] == 3 * EACH


def day(days_ago: float) -> str:
    return datetime.fromtimestamp(time.time() - days_ago * DAY_S).strftime("%Y-%m-%d")


def test_a_person_sees_shares_times_and_the_file(found: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats"]) == 0
    text = capsys.readouterr().out
    assert "300 suggestions shown" in text and "75%" in text
    assert "an estimate of typing alone" in text and str(usage_file()) in text
    assert max(len(line) for line in text.splitlines() if str(usage_file()) not in line) <= 130


def test_few_suggestions_are_called_few_and_lost_events_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    record(SIMULATED[:7])
    writer = UsageWriter(usage_file, print)
    writer.add(Lost(time.time(), 12))
    writer.close(60)
    assert main(["stats"]) == 0
    text = capsys.readouterr().out
    assert "Only 7 so far" in text and "12 events are missing" in text


def test_forgetting_leaves_nothing(found: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", "forget"]) == 0
    assert "300 suggestions forgotten" in capsys.readouterr().out
    assert main(["stats"]) == 3
    assert "Nothing was shown" in capsys.readouterr().out


def test_with_no_file_there_is_nothing_and_none_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    assert main(["stats", "--json"]) == 3
    assert main(["stats", "forget"]) == 0
    assert not (tmp_path / "state").exists()
    capsys.readouterr()


def test_a_file_that_cannot_be_used_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    (tmp_path / "usage").mkdir()
    (tmp_path / "usage").chmod(0o755)
    usage_file().touch()
    assert main(["stats"]) == 1
    assert "chmod 700" in capsys.readouterr().err

"""300 suggestions with known numbers: the report matches an independent computation."""

import json
import math
import random
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lsp_server.cli import main
from lsp_server.usage.events import Answered, Decided, Event, Look, Lost, Outcome, Shown
from lsp_server.usage.place import STATE_VARIABLE, usage_file
from lsp_server.usage.writer import Writer
from tests.lsp_server.usage.events import record

COUNT = 300
DAY_S = 86_400


class Simulated:
    """One suggestion, by chance, and all that happened to it."""

    def __init__(self, chance: random.Random, key: int, now_s: float) -> None:
        self.key = key
        self.at_s = now_s - chance.uniform(0, 20) * DAY_S
        self.language = chance.choice(["python", "rust", "go"])
        self.kind = chance.choice(["line", "body", "expression"])
        self.trigger = chance.choice(["typing", "asked", "action"])
        self.outcome: Outcome | None = chance.choice(["whole", "part", "rejected", None, None])
        self.characters = chance.randint(1, 80)
        self.taken = chance.randint(1, self.characters) if self.outcome in ("whole", "part") else 0
        self.at_save = chance.choice([None, 10, 9, 5]) if self.taken else None
        self.later = chance.choice([None, 10, 3, 0]) if self.taken else None
        self.computed = [chance.uniform(20, 900)]
        self.draft = chance.choice([None, self.computed[0] / 4])
        self.remembered = [chance.uniform(0.1, 4) for _ in range(chance.randint(0, 3))]

    def events(self) -> list[Event]:
        """As a session tells them. Of ten letters, `at_save` and `later` still stand."""
        told: list[Event] = [
            Shown(self.key, self.at_s, self.language, self.kind, self.trigger, 0.5, self.characters),
            *(Answered(self.key, False, self.draft, ms) for ms in self.computed),
            *(Answered(self.key, True, None, ms) for ms in self.remembered),
        ]
        if self.outcome:
            told.append(Decided(self.key, self.outcome, self.taken))
        if self.at_save is not None:
            told.append(Look(self.key, "save", "a" * 10, "a" * self.at_save))
        if self.later is not None:
            told.append(Look(self.key, "later", "a" * 10, "a" * self.later))
        return told

    @property
    def day(self) -> str:
        return datetime.fromtimestamp(self.at_s).strftime("%Y-%m-%d")


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    chance = random.Random(300)
    return [Simulated(chance, key, time.time() - 60) for key in range(1, COUNT + 1)]


@pytest.fixture
def found(
    simulated: list[Simulated], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    """What `infill-ls stats --json` says of them."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    record(simulated)
    assert main(["stats", "--json"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def percentile(times: list[float], at: float) -> float:
    """By hand: between the two nearest ranks."""
    ordered, rank = sorted(times), at / 100 * (len(times) - 1)
    low, high = ordered[math.floor(rank)], ordered[math.ceil(rank)]
    return round(low + (high - low) * (rank - math.floor(rank)), 2)


def expected(some: list[Simulated]) -> dict[str, Any]:
    """The figures of some suggestions."""
    outcomes = Counter(one.outcome for one in some)
    kept = 0.0
    for one in some:
        last = one.at_save if one.later is None else one.later
        kept += one.taken * (last or 0) / 10
    return {
        "shown": len(some),
        **{name: outcomes[name] for name in ("whole", "part", "rejected")},
        "neither": outcomes[None],
        "taken_characters": sum(one.taken for one in some),
        "at_save": stood([one.at_save for one in some]),
        "later": stood([one.later for one in some]),
        "kept_characters": pytest.approx(kept, abs=0.5),
        "unseen_characters": sum(one.taken for one in some if one.at_save is None and one.later is None),
        "saved_s": pytest.approx(kept / 200 * 60, abs=0.2),
        "latency_ms": {
            "computed": {
                "first_draft": times([one.draft for one in some if one.draft is not None]),
                "whole": times([ms for one in some for ms in one.computed]),
            },
            "remembered": {"first_draft": times([]), "whole": times([ms for one in some for ms in one.remembered])},
        },
    }


def stood(tenths: list[int | None]) -> dict[str, Any]:
    seen = [each for each in tenths if each is not None]
    mean = sum(seen) / len(seen) / 10 if seen else None
    return {"seen": len(seen), "similarity": mean and pytest.approx(mean, abs=1e-4), "unchanged": seen.count(10)}


def times(found: list[float]) -> dict[str, Any]:
    return {"answers": len(found), **{f"p{at}": percentile(found, at) if found else None for at in (50, 95, 99)}}


def test_the_report_is_what_was_recorded(found: dict[str, Any], simulated: list[Simulated]) -> None:
    assert found["total"] == expected(simulated)
    assert found["lost_events"] == 0


@pytest.mark.parametrize(
    ("group", "of"), [("by_language", "language"), ("by_kind", "kind"), ("by_trigger", "trigger"), ("by_day", "day")]
)
def test_each_group_adds_up(found: dict[str, Any], simulated: list[Simulated], group: str, of: str) -> None:
    names = sorted({getattr(one, of) for one in simulated})
    assert list(found[group]) == names
    for name in names:
        assert found[group][name] == expected([one for one in simulated if getattr(one, of) == name])


def test_only_the_last_days_count(
    found: dict[str, Any], simulated: list[Simulated], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", "--json", "--days", "7"]) == 0
    recent = [one for one in simulated if one.at_s > time.time() - 7 * DAY_S]
    assert 0 < len(recent) < COUNT
    assert json.loads(capsys.readouterr().out)["total"]["shown"] == len(recent)


def test_a_person_sees_shares_times_and_where_the_file_is(
    found: dict[str, Any], simulated: list[Simulated], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats"]) == 0
    text = capsys.readouterr().out
    taken = sum(one.outcome in ("whole", "part") for one in simulated)
    assert "300 suggestions shown" in text
    assert f"{taken / COUNT:.0%}" in text
    assert "an estimate of typing alone" in text
    assert str(usage_file()) in text
    assert max(len(line) for line in text.splitlines() if str(usage_file()) not in line) <= 130
    assert "chance" not in text


def test_few_suggestions_are_called_few_and_lost_events_are_told(
    simulated: list[Simulated], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    record(simulated[:7])
    writer = Writer(usage_file, print)
    writer.add(Lost(time.time(), 12))
    writer.close(60)
    assert main(["stats"]) == 0
    text = capsys.readouterr().out
    assert "Only 7 so far" in text
    assert "12 events are missing" in text


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

"""300 simulated requests with known numbers: the report matches an independent computation."""

import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lsp_server.cli import main
from lsp_server.shadow.report import RESAMPLES, SEED
from lsp_server.usage.events import Decided, Event, Outcome, Pair, PairHole, PairLook, PairOutcome, Shown, Side
from lsp_server.usage.place import STATE_VARIABLE, usage_file
from lsp_server.usage.writer import UsageWriter
from tests.lsp_server.usage.events import record

COUNT = 300
DOCUMENTS = 40
LETTERS = 20


class Simulated:
    """One request of one hole, by chance. Of 20 letters each model got so many right; `lead` favours the other one."""

    def __init__(self, chance: random.Random, key: int, lead: float, now_s: float) -> None:
        self.key = key
        self.at_s = now_s - 50_000 + 100 * key
        self.document = chance.randint(1, DOCUMENTS)
        self.language = chance.choice(["python", "rust", "go"])
        self.kind = chance.choice(["line", "body"])
        outcomes: list[PairOutcome] = ["answered", "late", "nothing", "failed", "stopped"]
        self.outcome = chance.choices(outcomes, [70, 10, 8, 7, 5])[0]
        self.taken: Outcome | None = chance.choice(["whole", "part", "rejected", None])
        self.main = chance.randint(5, 15) + (3 if self.taken == "whole" else 0)
        self.other = min(LETTERS, max(0, self.main + round(chance.gauss(lead * LETTERS, 4)) + self.document % 3 - 1))
        self.seen_at = chance.choice(["save", "later", "both", None])
        self.main_ms, self.other_ms = chance.uniform(50, 400), chance.uniform(200, 3000)

    @property
    def has_text(self) -> bool:
        return self.outcome in ("answered", "late")

    @property
    def stands(self) -> bool:
        return self.seen_at is not None

    def events(self) -> list[Event]:
        """As a session tells them. What stands in the end are 20 letters `a`; at a save before that, nothing of use."""
        wrote = [right * "a" + (LETTERS - right) * "-" for right in (self.main, self.other)]
        hole = PairHole(self.key, self.key, self.kind, wrote[0], wrote[1] if self.has_text else None)
        answered = self.has_text or self.outcome == "nothing"
        other_ms = self.other_ms if answered else None
        told: list[Event] = [Shown(self.key, self.at_s, self.language, self.kind, "asked", 0.5, LETTERS)]
        if self.taken:
            told.append(Decided(self.key, self.taken, 5))
        sides = Side("embedded", self.main_ms), Side("big", other_ms)
        about = (self.document, self.language, "asked", self.outcome)
        error = "server" if self.outcome == "failed" else ""
        told.append(Pair(self.key, self.at_s, *about, *sides, (hole,), error))
        if self.seen_at in ("save", "both"):
            told.append(PairLook(hole, "save", ("z" if self.seen_at == "both" else "a") * LETTERS))
        if self.seen_at in ("later", "both"):
            told.append(PairLook(hole, "later", "a" * LETTERS))
        return told


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    return tmp_path


def simulate(lead: float = 0.0, count: int = COUNT) -> list[Simulated]:
    chance = random.Random(20)
    return [Simulated(chance, key, lead, time.time()) for key in range(1, count + 1)]


def reported(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["shadow", "report", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert (found["main"], found["other"]) == ("embedded", "big")
    return {**found, "lines": {line["name"]: line for line in found["lines"]}}


def expected(some: list[Simulated]) -> dict[str, Any]:
    """A line of the report, computed on whole lists and with numpy."""
    leads: dict[int, list[float]] = {}
    for one in some:
        leads.setdefault(one.document, []).append((one.other - one.main) / LETTERS)
    chance, lists = random.Random(SEED), [np.array(values) for values in leads.values()]
    draws = (chance.choices(range(len(lists)), k=len(lists)) for _ in range(RESAMPLES))
    low, high = np.percentile([np.concatenate([lists[at] for at in drawn]).mean() for drawn in draws], [2.5, 97.5])
    means = [np.mean([one.main for one in some]) / LETTERS, np.mean([one.other for one in some]) / LETTERS]
    figures = {"main": means[0], "other": means[1], "difference": means[1] - means[0], "low": low, "high": high}
    counts = {"holes": len(some), "documents": len(leads)}
    return {**counts, **{name: pytest.approx(value, abs=1e-9) for name, value in figures.items()}}


def test_the_report_is_what_was_recorded(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulated = simulate()
    record(simulated)
    found = reported(capsys)
    seen = [one for one in simulated if one.stands and one.outcome == "answered"]
    groups = {"all": seen, "you took nothing": [one for one in seen if one.taken in ("rejected", None)]}
    groups |= {name: [one for one in seen if one.language == name] for name in ("go", "python", "rust")}
    assert found["lines"] == {name: {"name": name, **expected(group)} for name, group in groups.items()}
    assert (found["requests"], found["outcomes"]) == (COUNT, dict(Counter(one.outcome for one in simulated)))
    timed = [one for one in simulated if one.has_text]
    medians = [np.median([one.main_ms for one in timed]), np.median([one.other_ms for one in timed])]
    assert found["median_ms"] == pytest.approx(medians, abs=0.06)


@pytest.mark.parametrize(
    ("lead", "verdict"),
    [(0.3, "big writes better for you"), (-0.3, "embedded writes better for you"), (0.0, "Undecided.")],
)
def test_the_interval_decides(state: Path, capsys: pytest.CaptureFixture[str], lead: float, verdict: str) -> None:
    record(simulate(lead))
    assert reported(capsys)["verdict"].startswith(verdict)


def test_a_model_that_seldom_answers_does_not_win(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulated = simulate(0.3)
    for one in simulated[: COUNT * 2 // 3]:
        one.outcome = "failed"
    record(simulated)
    found = reported(capsys)
    assert found["lines"]["all"]["low"] > 0
    assert "late or missing" in found["verdict"]


def test_taken_texts_do_not_make_the_main_model_win(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulated = simulate(-0.3)
    for one in simulated:
        if one.taken in ("rejected", None):
            one.main, one.other = 8, 9
    record(simulated)
    found = reported(capsys)
    assert found["lines"]["all"]["high"] < 0 < found["lines"]["you took nothing"]["difference"]
    assert "only where you accepted" in found["verdict"]


def test_with_few_requests_it_is_too_early(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(simulate(0.3, count=12))
    assert "Too early" in reported(capsys)["verdict"]


def test_other_models_are_another_comparison(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(simulate(count=50))
    hole = PairHole(999, 999, "line", "a", "b")
    writer = UsageWriter(usage_file, print)
    writer.add(Shown(999, time.time(), "go", "line", "asked", None, 1))
    sides = Side("partner", 5.0), Side("embedded", 5.0)
    writer.add(Pair(999, time.time(), 1, "go", "asked", "answered", *sides, (hole,)))
    writer.close(60)
    assert main(["shadow", "report", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["comparisons"]
    assert [(one["main"], one["requests"]) for one in found] == [("partner", 1), ("embedded", 50)]


def test_a_person_sees_the_verdict_and_the_table(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(simulate(0.3))
    assert main(["shadow", "report"]) == 0
    text = capsys.readouterr().out
    for words in ("big writes better for you", "300 requests", "failed", "you took nothing", "█", "in quiet moments"):
        assert words in text, words


def test_the_page_stands_alone_and_trusts_no_name(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulated = simulate(0.3)
    simulated[0].language = "<script>"
    record(simulated)
    assert main(["shadow", "report", "--html"]) == 0
    page = capsys.readouterr().out
    assert page.lower().startswith("<!doctype html>")
    assert "big writes better for you" in page and "<script" not in page
    assert "http" not in page


@pytest.mark.parametrize("form", [(), ("--html",)])
def test_without_records_it_says_what_to_set(
    state: Path, capsys: pytest.CaptureFixture[str], form: tuple[str, ...]
) -> None:
    assert main(["shadow", "report", *form]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert "shadow.sample" in said.err
    assert main(["shadow", "forget"]) == 0
    assert not usage_file().exists()


def test_forgetting_leaves_the_statistics(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(simulate())
    assert main(["shadow", "forget"]) == 0
    assert "300 compared requests forgotten" in capsys.readouterr().out
    assert main(["shadow", "report"]) == 3
    capsys.readouterr()
    assert main(["stats", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total"]["shown"] == COUNT

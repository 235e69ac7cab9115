"""300 simulated requests with known numbers: the report is what is computed here, by other means."""

import json
import math
import random
import re
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lsp_server.cli import main
from lsp_server.shadow.intervals import RESAMPLES, SEED
from lsp_server.usage.events import Decided, Event, Outcome, Pair, PairHole, PairLook, PairOutcome, Shown, Side
from lsp_server.usage.place import STATE_VARIABLE, usage_file
from lsp_server.usage.writer import Writer

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
        self.outcome: PairOutcome = chance.choices(
            ["answered", "late", "nothing", "failed", "stopped"], [70, 10, 8, 7, 5]
        )[0]
        self.taken: Outcome | None = chance.choice(["whole", "part", "rejected", None])
        self.main = chance.randint(5, 15) + (3 if self.taken == "whole" else 0)
        self.other = min(LETTERS, max(0, self.main + round(chance.gauss(lead * LETTERS, 4)) + self.document % 3 - 1))
        self.seen_at = chance.choice(["save", "later", "both", None])
        self.main_ms, self.other_ms = chance.uniform(50, 400), chance.uniform(200, 3000)
        self.main_first = chance.choice([None, self.main_ms / 3])
        self.other_first = self.other_ms / 5

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
        other_ms = (self.other_first, self.other_ms) if answered else (None, None)
        told: list[Event] = [Shown(self.key, self.at_s, self.language, self.kind, "asked", 0.5, LETTERS)]
        if self.taken:
            told.append(Decided(self.key, self.taken, 5))
        sides = Side("embedded", self.main_first, self.main_ms, 0.5), Side("big", *other_ms, None)
        error = "server" if self.outcome == "failed" else ""
        told.append(
            Pair(self.key, self.at_s, self.document, self.language, "asked", self.outcome, *sides, (hole,), error)
        )
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


def record(simulated: list[Simulated]) -> None:
    writer = Writer(usage_file, print)
    for one in simulated:
        for event in one.events():
            writer.add(event)
    writer.close(60)


def reported(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["shadow", "report", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert (found["main"], found["other"]) == ("embedded", "big")
    return dict(found)


# --- the same figures, computed anew --------------------------------------------------------------------------------


def interval(values: list[tuple[int, float]], digits: int) -> dict[str, Any] | None:
    """As `mean_with_interval` says that it does it, on whole lists and with numpy."""
    if not values:
        return None
    documents = list(dict.fromkeys(document for document, _ in values))
    lists = [np.array([value for at, value in values if at == document]) for document in documents]
    chance, means = random.Random(SEED), []
    for _ in range(RESAMPLES):
        drawn = chance.choices(range(len(lists)), k=len(lists))
        means.append(np.concatenate([lists[at] for at in drawn]).mean())
    low, high = np.percentile(means, [2.5, 97.5])
    mean = np.concatenate(lists).mean()
    near = {"abs": 0.6 * 10**-digits}
    return {
        "mean": pytest.approx(mean, **near),
        "low": pytest.approx(low, **near),
        "high": pytest.approx(high, **near),
        "documents": len(lists),
    }


def quality(rows: list[tuple[int, float, float]]) -> dict[str, Any]:
    return {
        "holes": len(rows),
        "main": pytest.approx(np.mean([row[1] for row in rows]), abs=1e-4) if rows else None,
        "other": pytest.approx(np.mean([row[2] for row in rows]), abs=1e-4) if rows else None,
        "delta": interval([(document, theirs - ours) for document, ours, theirs in rows], 4),
    }


def latency(rows: list[tuple[int, float, float]]) -> dict[str, Any]:
    def cuts(times: list[float]) -> dict[str, Any]:
        return {f"p{at}": pytest.approx(np.percentile(times, at), abs=0.01) if times else None for at in (50, 95)}

    return {
        "requests": len(rows),
        "main": cuts([row[1] for row in rows]),
        "other": cuts([row[2] for row in rows]),
        "delta": interval([(document, theirs - ours) for document, ours, theirs in rows], 2),
    }


def expected(some: list[Simulated]) -> dict[str, Any]:
    outcomes, taken = Counter(one.outcome for one in some), Counter(one.taken for one in some)
    seen = [one for one in some if one.stands]

    def rows(chosen: list[Simulated]) -> list[tuple[int, float, float]]:
        return [(one.document, one.main / LETTERS, one.other / LETTERS) for one in chosen]

    in_time = [one for one in seen if one.outcome == "answered"]
    missing = [
        (one.document, one.main / LETTERS, one.other / LETTERS if one.outcome == "answered" else 0.0)
        for one in seen
        if one.outcome != "stopped"
    ]
    alike = [1 - abs(one.main - one.other) / LETTERS for one in some if one.has_text]
    return {
        "requests": len(some),
        **{name: outcomes[name] for name in ("answered", "late", "nothing", "failed", "stopped")},
        "errors": {"server": outcomes["failed"]} if outcomes["failed"] else {},
        "documents": len({one.document for one in some}),
        "acceptance": {
            "holes": len(some),
            **{name: taken[name] for name in ("whole", "part", "rejected")},
            "neither": taken[None],
        },
        "latency_ms": {
            "first": latency(
                [(one.document, one.main_first, one.other_first) for one in some if one.has_text and one.main_first]
            ),
            "whole": latency([(one.document, one.main_ms, one.other_ms) for one in some if one.has_text]),
        },
        "quality": {
            "in_time": quality(rows(in_time)),
            "with_late": quality(rows([one for one in seen if one.has_text])),
            "missing_as_0": quality(missing),
            "nothing_taken": quality(rows([one for one in in_time if one.taken in ("rejected", None)])),
        },
        "alike": {"holes": len(alike), "similarity": pytest.approx(np.mean(alike), abs=1e-4)},
    }


def test_the_report_is_what_was_recorded(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulated = simulate()
    record(simulated)
    found = reported(capsys)
    assert found["total"] == expected(simulated)
    for group, of in (("by_language", "language"), ("by_kind", "kind")):
        names = sorted({getattr(one, of) for one in simulated})
        assert list(found[group]) == names
        for name in names:
            assert found[group][name] == expected([one for one in simulated if getattr(one, of) == name]), name


def test_the_interval_is_as_wide_as_theory_says_for_documents_that_differ(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The ratio estimator's own standard error, over documents: no bootstrap."""
    simulated = simulate()
    record(simulated)
    delta = reported(capsys)["total"]["quality"]["in_time"]["delta"]
    values: dict[int, list[float]] = {}
    for one in simulated:
        if one.stands and one.outcome == "answered":
            values.setdefault(one.document, []).append((one.other - one.main) / LETTERS)
    count = sum(map(len, values.values()))
    mean = sum(map(sum, values.values())) / count
    error = math.sqrt(sum((sum(each) - mean * len(each)) ** 2 for each in values.values())) / count
    assert (delta["high"] - delta["low"]) / 2 == pytest.approx(1.96 * error, rel=0.1)


@pytest.mark.parametrize(("lead", "winner"), [(0.3, "other"), (-0.3, "main"), (0.0, None)])
def test_the_verdict_follows_the_interval(
    state: Path, capsys: pytest.CaptureFixture[str], lead: float, winner: str | None
) -> None:
    record(simulate(lead))
    found = reported(capsys)
    verdict, delta = found["verdict"], found["total"]["quality"]["in_time"]["delta"]
    assert verdict["winner"] == winner
    if winner:
        assert verdict["more_requests"] == 0
        assert delta["low"] > 0 or delta["high"] < 0
        return
    half = (delta["high"] - delta["low"]) / 2
    holes_needed = (half / max(0.02, abs(delta["mean"]))) ** 2
    assert verdict["more_requests"] == math.ceil((holes_needed - 1) * COUNT)
    assert f"{verdict['more_requests']:,} more requests" in verdict["words"]


def test_the_number_that_is_still_needed_comes_true(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With so many more of the same kind the interval is about as narrow as it has to be."""
    record(simulate(count=100))
    before = reported(capsys)
    more = before["verdict"]["more_requests"]
    assert more
    main(["stats", "forget"])
    record(simulate(count=100 + more))
    after = reported(capsys)["total"]["quality"]["in_time"]["delta"]
    half = (after["high"] - after["low"]) / 2
    assert half <= 1.5 * max(0.02, abs(before["total"]["quality"]["in_time"]["delta"]["mean"]))


def test_a_model_that_answers_only_now_and_then_does_not_win(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulated = simulate(0.3)
    for one in simulated[: COUNT * 2 // 3]:
        one.outcome = "failed"
    record(simulated)
    found = reported(capsys)
    assert found["total"]["quality"]["in_time"]["delta"]["low"] > 0
    assert found["verdict"]["winner"] is None
    assert "missing or late" in found["verdict"]["words"]


def test_texts_that_were_taken_do_not_make_the_main_model_win(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulated = simulate(-0.3)
    for one in simulated:
        if one.taken in ("rejected", None):
            one.main, one.other = 8, 9
    record(simulated)
    found = reported(capsys)
    assert found["total"]["quality"]["in_time"]["delta"]["high"] < 0
    assert found["total"]["quality"]["nothing_taken"]["delta"]["mean"] > 0
    assert found["verdict"]["winner"] is None
    assert "what you took counts for" in found["verdict"]["words"]


def test_with_few_requests_it_is_too_early(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(simulate(0.3, count=12))
    verdict = reported(capsys)["verdict"]
    assert (verdict["winner"], verdict["more_requests"]) == (None, None)
    assert "Too early" in verdict["words"]


def test_two_models_more_are_a_comparison_of_their_own(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(simulate(count=50))
    hole = PairHole(999, 999, "line", "a", "b")
    writer = Writer(usage_file, print)
    writer.add(Shown(999, time.time(), "go", "line", "asked", None, 1))
    sides = Side("partner", None, 5.0, None), Side("embedded", None, 5.0, None)
    writer.add(Pair(999, time.time(), 1, "go", "asked", "answered", *sides, (hole,)))
    writer.close(60)
    assert main(["shadow", "report", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["comparisons"]
    assert [(one["main"], one["total"]["requests"]) for one in found] == [("partner", 1), ("embedded", 50)]


@pytest.mark.parametrize("has_answered", [True, False])
def test_what_failed_before_a_server_had_said_its_models_name_counts_against_that_model(
    state: Path, capsys: pytest.CaptureFixture[str], *, has_answered: bool
) -> None:
    """Else a server that is mostly down would look as if it always answered."""
    simulated = simulate(count=10) if has_answered else []
    record(simulated)
    writer = Writer(usage_file, print)
    for key, name in enumerate(("localhost:8000/v1", "http://localhost:8000"), 1000):
        hole = PairHole(key, key, "line", "a", None)
        sides = Side("embedded", None, 5.0, None), Side(name)
        writer.add(Shown(key, time.time(), "go", "line", "asked", None, 1))
        writer.add(Pair(key, time.time(), 1, "go", "asked", "failed", *sides, (hole,), "server"))
    writer.close(60)
    assert main(["shadow", "report", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["comparisons"]
    if has_answered:
        failed = sum(one.outcome == "failed" for one in simulated)
        assert [(one["other"], one["total"]["requests"]) for one in found] == [("big", 12)]
        assert found[0]["total"]["failed"] == failed + 2
    else:
        assert [one["total"]["failed"] for one in found] == [1, 1]


def test_what_failed_counts_against_the_model_that_answered_next(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not against the one that the user has turned to since."""
    writer, now_s = Writer(usage_file, print), time.time()
    told = [
        ("x", "answered"),
        ("localhost:8000", "failed"),
        ("x", "answered"),
        ("y", "answered"),
        ("other:1", "failed"),
    ]
    for key, (name, outcome) in enumerate(told, 1):
        text = "b" if outcome == "answered" else None
        hole = PairHole(key, key, "line", "a", text)
        sides = Side("embedded", None, 5.0, None), Side(name)
        writer.add(Shown(key, now_s + key, "go", "line", "asked", None, 1))
        writer.add(Pair(key, now_s + key, 1, "go", "asked", outcome, *sides, (hole,), "server" if text is None else ""))
    writer.close(60)
    assert main(["shadow", "report", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["comparisons"]
    counted = {one["other"]: (one["total"]["requests"], one["total"]["failed"]) for one in found}
    assert counted == {"x": (3, 1), "y": (2, 1)}


def test_a_person_sees_the_verdict_the_counts_and_what_speaks_against_it(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(simulate(0.3))
    assert main(["shadow", "report"]) == 0
    text = capsys.readouterr().out
    assert "big writes better for you" in text
    assert "300 requests" in text
    assert "failed" in text
    assert "once all was quiet" in text
    assert (
        max(len(line) for line in text.splitlines() if str(state) not in line and "better for you" not in line) <= 130
    )


def test_the_page_stands_alone_and_trusts_no_name(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulated = simulate(0.3)
    simulated[0].language = "<script>alert(1)</script>"
    record(simulated)
    assert main(["shadow", "report", "--html"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!doctype html>")
    assert "big writes better for you" in unescape(page)
    assert not re.search(r"https?:|<script|<link|<img|@import|url\(|\son\w+=", page)
    plots = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(plots) == 2
    for plot in plots:
        assert len(ElementTree.fromstring(plot).findall(".//*")) > 8
        assert "nan" not in plot


@pytest.mark.parametrize("form", [(), ("--html",)])
def test_where_nothing_is_recorded_it_says_what_to_set(
    state: Path, capsys: pytest.CaptureFixture[str], form: tuple[str, ...]
) -> None:
    assert main(["shadow", "report", *form]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert "shadow.sample" in said.err
    assert main(["shadow", "forget"]) == 0
    assert not usage_file().exists()


def test_what_is_forgotten_is_compared_no_more_and_the_statistics_stay(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(simulate())
    assert main(["shadow", "forget"]) == 0
    assert "300 compared requests forgotten" in capsys.readouterr().out
    assert main(["shadow", "report"]) == 3
    capsys.readouterr()
    assert main(["stats", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total"]["shown"] == COUNT


def test_two_models_that_write_the_same_are_told_to_be_alike(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulated = simulate()
    for one in simulated:
        one.other = one.main + (1 if one.key % 20 == 0 else -1 if one.key % 20 == 10 else 0)
    record(simulated)
    verdict = reported(capsys)["verdict"]
    assert (verdict["winner"], verdict["more_requests"]) == ("neither", 0)

"""The budget of a fill, and its message if nothing fits. A scripted worker is at the socket."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest

from inference.deadline import Deadline
from inference.messages import HoleKind, PinnedText, Snippet
from lsp_server.actions import Action, ActionKind, ActionNotDoneError, holes_for
from lsp_server.documents.document import Document, Snapshot
from lsp_server.fill.pipeline import FillBudget, FillResult, fill
from lsp_server.holes import HoleSpan, find_markers
from lsp_server.settings.schema import Settings
from lsp_server.worker import WorkerClient
from tests.lsp_server.inline.scripted_worker import ScriptedWorker, scripted_client
from tests.workers import until

DEADLINE_MS = 600_000
"""Longer than any machine is busy."""
NOTHING = "the model found nothing that fits here; what it wrote "


@dataclass
class Asked:
    """A worker and its client."""

    worker: ScriptedWorker
    client: WorkerClient

    def fill(self, budget: FillBudget, text: str = "x = ???\n") -> "asyncio.Task[FillResult]":
        """A fill of all holes of a text, on its way to the worker."""
        snapshot = snapshot_of(text)
        return asyncio.create_task(fill(self.client, snapshot, find_markers(snapshot), budget))

    async def deadline_ms(self, budget: FillBudget, text: str = "x = ???\n") -> int:
        """The deadline of the request that a fill of all holes of a text leads to."""
        task = self.fill(budget, text)
        await until(lambda: bool(self.worker.requests))
        task.cancel()
        return self.worker.requests[-1].deadline_ms or 0

    async def answer(self, number: int, *fills: str) -> None:
        """Answer the request of that number, from 1, when it comes."""
        await until(lambda: len(self.worker.requests) == number)
        self.worker.answer(*fills)


def snapshot_of(text: str) -> Snapshot:
    return Document("file:///a.py", "python", 1, text).snapshot()


def invoked(deadline_ms: int = DEADLINE_MS) -> FillBudget:
    return replace(FillBudget.from_settings(Settings(), invoked=True), deadline=Deadline(deadline_ms))


@pytest.fixture
async def asked(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    async with scripted_client(monkeypatch) as connected:
        yield Asked(*connected)


async def test_the_deadline_counts_from_when_the_request_arrived(asked: Asked) -> None:
    early = FillBudget(1, Deadline(DEADLINE_MS, time.monotonic() - DEADLINE_MS / 2000), None)
    assert 1 < await asked.deadline_ms(early) <= DEADLINE_MS / 2


@pytest.mark.parametrize(("holes", "kept"), [(1, 0.0), (2000, 0.1)])
async def test_time_to_fit_the_holes_is_kept_and_at_most_a_tenth(asked: Asked, holes: int, kept: float) -> None:
    asked_ms = await asked.deadline_ms(invoked(), "???\n" * holes)
    assert DEADLINE_MS * (0.95 - kept) < asked_ms <= DEADLINE_MS * (1 - kept)


@pytest.mark.parametrize(("deadline_ms", "kept_ms"), [(2_000, 500), (1_000, 250), (DEADLINE_MS, 500)])
async def test_an_automatic_request_keeps_time_for_a_late_worker(asked: Asked, deadline_ms: int, kept_ms: int) -> None:
    budget = replace(FillBudget.from_settings(Settings(), invoked=False), deadline=Deadline(deadline_ms))
    assert 0 < await asked.deadline_ms(budget) <= deadline_ms - kept_ms


async def test_where_nothing_fits_more_candidates_are_asked_for(asked: Asked) -> None:
    filling = asked.fill(invoked())
    await asked.answer(1, "", " ", "\ufffd")
    await asked.answer(2, "", " ", "\ufffd", "y")
    assert [each.texts for each in (await filling).candidates] == [("y",)]
    first, second = asked.worker.requests
    assert (first.candidates, second.candidates) == (Settings().candidates.invoked, 8)
    assert (second.deadline_ms or 0) <= (first.deadline_ms or 0)


@pytest.mark.parametrize(
    "budget",
    [FillBudget.from_settings(Settings(), invoked=False), replace(invoked(), candidates=8), invoked(1)],
    ids=["appears by itself", "as many already", "no time left"],
)
async def test_more_are_not_asked_for_otherwise(asked: Asked, budget: FillBudget) -> None:
    asked.worker.fills = ["y"]
    await asked.fill(invoked())  # connected, with a model: no deadline waits for that
    asked.worker.fills = [""]
    assert (await asked.fill(budget)).candidates == []
    assert len(asked.worker.requests) == 2


async def test_an_answer_that_fits_is_not_asked_for_twice(asked: Asked) -> None:
    asked.worker.fills = ["", "y"]
    assert [each.texts for each in (await asked.fill(invoked())).candidates] == [("y",)]
    assert len(asked.worker.requests) == 1


async def test_reason_survives_an_empty_second_answer(asked: Asked) -> None:
    budget = invoked()
    filling = asked.fill(budget)
    await asked.answer(1, "", "\ufffd", " ")
    await asked.answer(2)
    assert (await filling).empty_reason(budget) == NOTHING + "is empty (2×), is not valid text (1×)"


@pytest.mark.parametrize(
    ("uri", "language", "text", "comment"),
    [
        ("file:///secret/place/main.py", "python", "", "# main.py\n"),
        ("untitled:Untitled-1", "python", "im", "# Untitled-1 (python)\n"),
        ("file:///a.kt", "", "", "// a.kt\n"),
        ("file:///a.json", "json", "{", ""),
        ("untitled:Untitled-1", "plaintext", "int main(", ""),
    ],
)
async def test_a_request_tells_a_files_name_but_no_path(
    asked: Asked, uri: str, language: str, text: str, comment: str
) -> None:
    asked.worker.fills = ["x"]
    snapshot = Document(uri, language, 1, text).snapshot()
    end = HoleSpan(len(text), len(text), HoleKind.LINE, single_line=True)
    await fill(asked.client, snapshot, [end], FillBudget.from_settings(Settings(), invoked=False))
    (request,) = asked.worker.requests
    assert request.name_comment == comment
    assert "secret" not in str(request)


@pytest.mark.parametrize(
    ("uri", "language", "text"),
    [
        *(("", "", text) for text in ("", "p", "import ", "# ")),
        *(("untitled:Untitled-1", "plaintext", text) for text in ("", "p", "import ", "# ")),
        ("file:///package.json", "json", ""),
        ("untitled:Untitled-1", "json", "\n\n"),
        ("untitled:Untitled-1", "markdown", ""),
    ],
)
async def test_where_nothing_tells_the_language_nothing_appears(
    asked: Asked, uri: str, language: str, text: str
) -> None:
    asked.worker.fills = ["x"]
    snapshot = Document(uri, language, 1, text).snapshot()
    end = HoleSpan(len(text), len(text), HoleKind.LINE, single_line=True)
    budget = FillBudget.from_settings(Settings(), invoked=False)
    nothing = await fill(asked.client, snapshot, [end], budget)
    assert (nothing.candidates, asked.worker.requests) == ([], [])
    assert "what kind" in nothing.empty_reason(budget)
    assert (await fill(asked.client, snapshot, [end], invoked())).candidates


@pytest.mark.parametrize("fill_text", ["# a.py", "# a.py\nx = 1"])
async def test_no_fill_repeats_the_comment_with_the_name(asked: Asked, fill_text: str) -> None:
    asked.worker.fills = [fill_text]
    assert (await asked.fill(replace(invoked(), candidates=8), "???")).candidates == []


async def test_the_attempts_of_a_repair_share_one_deadline(asked: Asked) -> None:
    snapshot = snapshot_of("total = (item.price\n")
    action = Action(ActionKind.REPAIR, 0, 8, holes_for(ActionKind.REPAIR, snapshot, "???", 0, 8))
    doing = asyncio.create_task(action.fill(asked.client, snapshot, invoked()))
    for attempt in (1, 2, 3):
        await until(lambda wanted=attempt: len(asked.worker.requests) == wanted)  # type: ignore[misc]
        await asyncio.sleep(0.2)
        asked.worker.answer("")
    with pytest.raises(ActionNotDoneError, match="is empty"):
        await doing
    first, second, third = (request.deadline_ms or 0 for request in asked.worker.requests)
    assert first - second >= 200
    assert second - third >= 200


async def test_no_further_attempt_is_begun_after_the_deadline(asked: Asked) -> None:
    snapshot = snapshot_of("total = (item.price\n")
    action = Action(ActionKind.REPAIR, 0, 8, holes_for(ActionKind.REPAIR, snapshot, "???", 0, 8))
    asked.worker.fills = ["y"]
    await asked.fill(invoked())  # connected, with a model: no deadline waits for that
    asked.worker.fills = None
    with pytest.raises(ActionNotDoneError):
        await action.fill(asked.client, snapshot, invoked(50))
    assert len(asked.worker.requests) == 2


async def test_the_model_sees_no_marker_of_another_hole(asked: Asked) -> None:
    snapshot = snapshot_of("a = <x>\nb = <x>\n")
    asked.worker.fills = ["1"]
    here, context = find_markers(snapshot, "<x>")[1:], (Snippet("b.py", "d = <x>\n"),)
    await fill(asked.client, snapshot, here, invoked(), context=context, marker="<x>")
    (request,) = asked.worker.requests
    assert request.segments[0] == PinnedText("a = _\nb = ")
    assert request.context == (Snippet("b.py", "d = _\n"),)

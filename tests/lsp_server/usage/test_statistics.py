"""Each answer counts once as shown, and by its last outcome."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from lsp_server.inline import Cursor, InlineRequest, InlineService
from lsp_server.inline.suggestion import Suggestion
from lsp_server.session import Session
from lsp_server.usage.statistics import CounterKey, StatisticsFeature
from tests.lsp_server.inline.scripted_worker import ScriptedWorker
from tests.lsp_server.test_session import BUDGET, URI, types_text, working


class Counts(Counter[str]):
    """A writer that keeps its counts, by event."""

    def count(self, key: CounterKey, by: int = 1) -> None:
        self[key.event] += by


@dataclass
class Scene:
    """A session with one document, whose worker always finds two, and what is counted."""

    session: Session
    worker: ScriptedWorker
    counts: Counts

    async def ask(self, offset: int = 4, *, invoked: bool = True) -> list[Suggestion]:
        request = InlineRequest(Cursor(offset), BUDGET.restarted(), "???", invoked=invoked)
        answer = self.session.feature(InlineService).complete(URI, request)
        found = await answer if isinstance(answer, asyncio.Future) else answer
        return [suggestion for suggestion, _ in found]

    def type(self, start: int, text: str) -> None:
        types_text(self.session, text, start)

    def accept(self, suggestion: Suggestion, length: int | None = None) -> None:
        self.session.feature(InlineService).accept(URI, suggestion.id, length)

    @property
    def outcomes(self) -> dict[str, int]:
        return {name: count for name, count in self.counts.items() if name in ("whole", "part", "rejected") and count}


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    async with working(monkeypatch, "foo(bar)", "something", prefetch=False) as (session, worker):
        counts = Counts()
        session.features.parts.append(StatisticsFeature(session, counts))  # type: ignore[arg-type]
        session.open(URI, "python", 1, "x = \n")
        yield Scene(session, worker, counts)


@pytest.mark.parametrize("told_first", [True, False])
async def test_one_of_several_that_is_taken_rejects_none(scene: Scene, *, told_first: bool) -> None:
    first, _ = await scene.ask()
    if told_first:
        scene.accept(first)
    scene.type(4, "foo(bar)")
    if not told_first:
        scene.accept(first)
    assert (scene.counts["shown"], scene.outcomes) == (1, {"whole": 1})


async def test_an_alternative_that_is_taken_is_the_offer_taken(scene: Scene) -> None:
    _, second = await scene.ask()
    scene.type(4, "something")
    scene.accept(second)
    assert scene.outcomes == {"whole": 1}


async def test_a_part_that_becomes_the_whole_counts_once(scene: Scene) -> None:
    first, _ = await scene.ask()
    scene.accept(first, 3)
    scene.type(4, "foo")
    assert scene.outcomes == {"part": 1}
    scene.accept(first)
    scene.type(7, "(bar)")
    assert scene.outcomes == {"whole": 1}


@pytest.mark.parametrize(("typed", "decided"), [("foo(bar)", {}), ("~~~~~", {"rejected": 1})])
async def test_typing_over_rejects_once_typing_along_never(scene: Scene, typed: str, decided: dict[str, int]) -> None:
    await scene.ask()
    for number, letter in enumerate(typed):
        scene.type(4 + number, letter)
    assert scene.outcomes == decided


async def test_what_is_remembered_is_told_from_what_is_computed(scene: Scene) -> None:
    await scene.ask()
    scene.type(4, "f")
    assert await scene.ask(5, invoked=False)
    assert (scene.counts["shown"], scene.counts["computed"], len(scene.worker.requests)) == (1, 1, 1)

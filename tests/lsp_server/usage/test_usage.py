"""Each answer counts once as shown, and by its last outcome."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from lsp_server.documents.document import Document, Edit
from lsp_server.documents.positions import Encoding
from lsp_server.fill.feature import Broadcast, Shown
from lsp_server.fill.pipeline import Budget
from lsp_server.inline import InlineRequest, InlineResult, InlineService
from lsp_server.inline.suggestion import Cursor, Suggestion
from lsp_server.settings.schema import Settings
from lsp_server.usage.usage import Key, Usage
from lsp_server.worker import WorkerClient
from tests.lsp_server.inline.scripted_worker import ScriptedWorker, scripted_client
from tests.lsp_server.inline.services import LoneHost

URI = "file:///a.py"
BUDGET = Budget(candidates=3, deadline_ms=60_000, max_steps=1)


class Counts(Counter[str]):
    """A ledger that keeps its counts, by event."""

    def count(self, key: Key, by: int = 1) -> None:
        self[key.event] += by


@dataclass
class Scene:
    """A service with one document, whose worker always finds two, and what is counted."""

    worker: ScriptedWorker
    client: WorkerClient
    counts: Counts = field(default_factory=Counts)
    document: Document = field(default_factory=lambda: Document(URI, "python", 1, "x = \n"))
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        self.worker.fills = ["foo(bar)", "something"]
        self.documents = {URI: self.document}
        self.broadcast = Broadcast()
        self.usage = Usage(self, self.counts)  # type: ignore[arg-type]
        self.broadcast.parts.append(self.usage)
        host = LoneHost(self.document, self, broadcast=self.broadcast, settings=Settings(prefetch=False))
        self.service = InlineService(host)  # type: ignore[arg-type]
        self.broadcast.parts.append(self.service)
        self.broadcast.opened(URI)

    def settings_of(self, _uri: str) -> Settings:
        return self.settings

    async def ask(self, offset: int = 4, *, invoked: bool = True) -> list[Suggestion]:
        request = InlineRequest(Cursor(offset), BUDGET.from_now(), "???", invoked=invoked)
        answer = self.service.ask(URI, request)
        result = answer if isinstance(answer, InlineResult) else await answer
        return [suggestion for suggestion, _ in result.found]

    def type(self, start: int, text: str) -> None:
        changes = self.document.apply([Edit((0, start), (0, start), text)], self.document.version + 1, Encoding.UTF16)
        self.broadcast.changed(URI, changes)

    def accept(self, suggestion: Suggestion, length: int | None = None) -> None:
        self.service.accept(URI, suggestion.id, length)

    @property
    def outcomes(self) -> dict[str, int]:
        return {name: count for name, count in self.counts.items() if name in ("whole", "part", "rejected") and count}


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    async with scripted_client(monkeypatch) as connected:
        scene = Scene(*connected)
        yield scene
        scene.broadcast.closed(URI)


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


async def test_where_statistics_are_off_nothing_counts(scene: Scene) -> None:
    scene.settings = Settings(statistics="off")
    await scene.ask()
    scene.broadcast.shown(URI, Shown("other", "next edit"))
    await asyncio.sleep(0)
    assert not scene.counts

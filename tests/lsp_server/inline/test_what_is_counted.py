"""The service reports each suggestion once as shown, accepted or rejected."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from lsp_server.documents.document import Document, Edit
from lsp_server.documents.positions import Encoding
from lsp_server.fill.pipeline import Budget
from lsp_server.inline import InlineRequest, InlineResult
from lsp_server.inline.suggestion import Cursor, Suggestion
from lsp_server.usage.events import Answered, Decided, Event, Shown
from lsp_server.usage.usage import Usage
from lsp_server.worker import WorkerClient
from tests.lsp_server.inline.scripted_worker import ScriptedWorker, scripted_client
from tests.lsp_server.inline.services import inline_service

URI = "file:///a.py"
BUDGET = Budget(candidates=3, deadline_ms=60_000, max_steps=1)


@dataclass
class Scene:
    """A service with one document, whose worker always finds two, and what it tells."""

    worker: ScriptedWorker
    client: WorkerClient
    told: list[Event] = field(default_factory=list)
    document: Document = field(default_factory=lambda: Document(URI, "python", 1, "x = \n"))

    def __post_init__(self) -> None:
        self.worker.fills = ["foo(bar)", "something"]
        self.usage = Usage(lambda _, event: self.told.append(event))
        self.service = inline_service(self.document, self, usage=self.usage)
        self.service.open(URI)

    async def loaded(self) -> WorkerClient:
        return self.client

    async def ask(self, offset: int = 4, *, invoked: bool = True) -> list[Suggestion]:
        request = InlineRequest(Cursor(offset), BUDGET.from_now(), "???", invoked=invoked)
        answer = self.service.ask(URI, request, self.document.snapshot)
        result = answer if isinstance(answer, InlineResult) else await answer
        return [suggestion for suggestion, _ in result.found]

    def type(self, start: int, text: str) -> None:
        changes = self.document.apply([Edit((0, start), (0, start), text)], self.document.version + 1, Encoding.UTF16)
        self.usage.changed(URI, changes)
        self.service.changed(URI, changes)

    def accept(self, suggestion: Suggestion, length: int | None = None) -> None:
        self.service.accepted(URI, suggestion.id, length, None, "???")

    @property
    def decided(self) -> list[tuple[str, int]]:
        return [(event.outcome, event.taken_characters) for event in self.told if isinstance(event, Decided)]


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    async with scripted_client(monkeypatch) as connected:
        scene = Scene(*connected)
        yield scene
        scene.service.forget(URI)


@pytest.mark.parametrize("told_first", [True, False])
async def test_one_of_several_that_is_taken_rejects_none(scene: Scene, *, told_first: bool) -> None:
    first, _ = await scene.ask()
    if told_first:
        scene.accept(first)
    scene.type(4, "foo(bar)")
    if not told_first:
        scene.accept(first)
    assert [event.characters for event in scene.told if isinstance(event, Shown)] == [8]
    assert scene.decided[-1] == ("whole", 8)
    assert {outcome for outcome, _ in scene.decided} == {"whole"}


async def test_an_alternative_that_is_taken_is_the_offer_taken(scene: Scene) -> None:
    _, second = await scene.ask()
    scene.type(4, "something")
    scene.accept(second)
    assert scene.decided[-1] == ("whole", 9)


@pytest.mark.parametrize(("typed", "decided"), [("foo(bar)", []), ("~~~~~", [("rejected", 0)])])
async def test_typing_over_rejects_once_typing_along_never(scene: Scene, typed: str, decided: list[object]) -> None:
    await scene.ask()
    for number, letter in enumerate(typed):
        scene.type(4 + number, letter)
    assert scene.decided == decided


async def test_what_is_remembered_is_told_from_what_is_computed(scene: Scene) -> None:
    await scene.ask()
    scene.type(4, "f")
    assert await scene.ask(5, invoked=False)
    answers = [event for event in scene.told if isinstance(event, Answered)]
    assert [event.remembered for event in answers] == [False, True]
    assert len(scene.worker.requests) == 1
    assert len([event for event in scene.told if isinstance(event, Shown)]) == 1

"""A partner's unfinished text never replaces a text, and recent fills keep their places.

The session is real. Scripted workers stand in for the model's and the partner's, since a real one cuts by a clock.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from inference.deadline import Deadline
from lsp_server.actions import Action, ActionKind, ActionNotDoneError, holes_of
from lsp_server.documents.document import Document
from lsp_server.fill.pipeline import FillBudget
from lsp_server.inline import Cursor, InlineRequest, InlineService
from lsp_server.inline.suggestion import Suggestion
from lsp_server.refine.refiner import NotRefinedError, PartnerRefiner
from lsp_server.session import Session
from lsp_server.settings.schema import PartnerSettings, Settings
from lsp_server.settings.worker_options import partner_options
from lsp_server.worker import WorkerClient
from tests.lsp_server.inline.scripted_worker import ScriptedWorker, scripted_client, scripted_worker
from tests.lsp_server.test_session import URI, types_text, working

TEXT = "x = \nprint(x)\n"
PARTNER = {"url": "http://127.0.0.1:9", "kind": "chat"}
PARTNERS = partner_options(Settings(partner=PartnerSettings(PARTNER["url"], kind="chat")))
BUDGET = FillBudget(1, Deadline(60_000), None)


@dataclass
class Scene:
    """A session with a document, and both its workers, which answer when they are told to."""

    session: Session
    model: ScriptedWorker
    partner: ScriptedWorker

    def found(self) -> list[Suggestion]:
        """What is known for the end of the first line."""
        request = InlineRequest(Cursor(4), BUDGET.from_now(), "???")
        known = self.session.feature(InlineService).complete(URI, request)
        return [] if isinstance(known, asyncio.Future) else [suggestion for suggestion, _ in known]

    async def suggestion(self, worker: ScriptedWorker, text: str, at: int = 4) -> str:
        """The id of the suggestion that the worker makes."""
        worker.fills = [text]
        answer = self.session.feature(InlineService).complete(
            URI, InlineRequest(Cursor(at), BUDGET.from_now(), "???", invoked=True)
        )
        assert isinstance(answer, asyncio.Future)
        ((suggestion, _),) = await answer
        worker.fills = None
        return suggestion.id

    async def refine(self, suggestion_id: str) -> None:
        await self.session.feature(PartnerRefiner).refine_suggestion(URI, suggestion_id)

    async def accept_first(self) -> None:
        """The user accepts the first suggestion."""
        first, *_ = self.found()
        self.session.feature(InlineService).accept(URI, first.id)
        self.replace(4, "x = " + first.text)

    def replace(self, end: int, text: str) -> None:
        """The user replaces the first characters of the document."""
        types_text(self.session, text, 0, end=end)


@asynccontextmanager
async def scene(monkeypatch: pytest.MonkeyPatch, **settings: object) -> AsyncIterator[Scene]:
    async with (
        working(monkeypatch, partner=PARTNER, **settings) as (session, model),
        scripted_worker(PARTNERS) as partner,
    ):
        session.open(URI, "python", 1, TEXT)
        yield Scene(session, model, partner)


async def test_a_suggestion_stays_where_the_partners_text_was_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(monkeypatch) as here:
        draft = await here.suggestion(here.model, "first(1)")
        asking = asyncio.create_task(here.refine(draft))
        await here.partner.until(lambda: bool(here.partner.requests))
        here.partner.answer_cut("fir")
        with pytest.raises(NotRefinedError, match=r"cut off.*deadlineMs\.invoked"):
            await asking
        assert [each.id for each in here.found()] == [draft]


@pytest.mark.parametrize("kind", [ActionKind.REFINE, ActionKind.REWORK, ActionKind.REPAIR])
async def test_code_stays_where_the_partners_text_was_cut(monkeypatch: pytest.MonkeyPatch, kind: ActionKind) -> None:
    async with scripted_client(monkeypatch, PARTNERS) as connected:
        with pytest.raises(ActionNotDoneError, match=r"cut off.*deadlineMs\.invoked"):
            await _cut_off(*connected, kind)


async def test_what_another_model_has_by_its_deadline_is_a_whole_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of text diffusion has a draft of the whole hole after each step."""
    async with scripted_client(monkeypatch) as connected:
        assert await _cut_off(*connected, ActionKind.REWORK) == ("y = 2",)


async def _cut_off(worker: ScriptedWorker, client: WorkerClient, kind: ActionKind) -> tuple[str, ...]:
    """What an action makes of a selected statement where the worker answers at its deadline."""
    snapshot = Document(URI, "python", 1, "x = first(1)\n").snapshot()
    action = Action(kind, 0, 12, holes_of(kind, snapshot, "???", 0, 12))
    asking = asyncio.create_task(action.fill(client, snapshot, BUDGET.from_now()))
    await worker.until(lambda: bool(worker.requests))
    worker.answer_cut("y = 2")
    return (await asking).texts

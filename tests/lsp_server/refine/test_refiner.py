"""A partner's unfinished text never replaces a text.

The session is real. Scripted workers stand in for the model's and the partner's, since a real one cuts by a clock.
"""

import asyncio

import pytest

from lsp_server.actions import Action, ActionKind, ActionNotDoneError, holes_for
from lsp_server.documents.document import Document
from lsp_server.inline import Cursor, InlineRequest, InlineService
from lsp_server.refine.refiner import NotRefinedError, PartnerRefiner
from lsp_server.settings.schema import PartnerSettings, Settings
from lsp_server.settings.worker_options import partner_options
from lsp_server.worker import WorkerClient
from tests.lsp_server.inline.scripted_worker import ScriptedWorker, scripted_client, scripted_worker
from tests.lsp_server.test_session import BUDGET, URI, working
from tests.workers import until

PARTNER = {"url": "http://127.0.0.1:9", "kind": "chat"}
PARTNERS = partner_options(Settings(partner=PartnerSettings(PARTNER["url"], kind="chat")))


async def test_a_suggestion_stays_where_the_partners_text_was_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        working(monkeypatch, partner=PARTNER) as (session, model),
        scripted_worker(PARTNERS) as partner,
    ):
        session.open(URI, "python", 1, "x = \nprint(x)\n")
        service = session.feature(InlineService)
        request = InlineRequest(Cursor(4), BUDGET.restarted(), "???", invoked=True)
        model.fills = ["first(1)"]
        found = service.complete(URI, request)
        assert isinstance(found, asyncio.Future)
        ((draft, _),) = await found
        model.fills = None
        asking = asyncio.create_task(session.feature(PartnerRefiner).refine_suggestion(URI, draft.id))
        await until(lambda: bool(partner.requests))
        partner.answer_cut("fir")
        with pytest.raises(NotRefinedError, match=r"cut off.*deadlineMs\.invoked"):
            await asking
        known = service.complete(URI, InlineRequest(Cursor(4), BUDGET.restarted(), "???"))
        assert not isinstance(known, asyncio.Future)
        assert [suggestion.id for suggestion, _ in known] == [draft.id]


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
    action = Action(kind, 0, 12, holes_for(kind, snapshot, "???", 0, 12))
    asking = asyncio.create_task(action.fill(client, snapshot, BUDGET.restarted()))
    await until(lambda: bool(worker.requests))
    worker.answer_cut("y = 2")
    return (await asking).texts

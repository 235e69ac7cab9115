"""How much of the text an action noises: the request's value, otherwise its kind's default."""

import pytest

from inference.deadline import Deadline
from inference.messages import Hole
from lsp_server import actions
from lsp_server.actions import Action, ActionKind, ActionNotDoneError, holes_for
from lsp_server.fill.pipeline import FillBudget
from tests.lsp_server.fill.test_budget import snapshot_of
from tests.lsp_server.inline.scripted_worker import scripted_client

BUDGET = FillBudget(candidates=1, deadline=Deadline(60_000), max_steps=1)
BROKEN, WHOLE = "total = (item.price\n", "total = item.price\n"


@pytest.mark.parametrize(
    ("kind", "text", "said", "asked"),
    [
        *((ActionKind.REPAIR, BROKEN, said, [said]) for said in (0.2, 0.6, 1.0)),
        *((ActionKind.REWORK, WHOLE, said, [said]) for said in (0.2, 0.6, 1.0)),
        pytest.param(ActionKind.REPAIR, BROKEN, None, [0.3, 0.6, 0.9], id="little noise first"),
        pytest.param(ActionKind.REPAIR, WHOLE, None, [0.6], id="what parses"),
        (ActionKind.REWORK, WHOLE, None, [0.6]),
        pytest.param(ActionKind.FILL_FILE, "total = ???\n", 0.5, [1.0], id="a hole is filled from scratch"),
    ],
)
async def test_the_worker_is_asked_for_strengths(
    monkeypatch: pytest.MonkeyPatch, kind: ActionKind, text: str, said: float | None, asked: list[float]
) -> None:
    """One request after the other, as none brings anything that fits."""
    snapshot, end = snapshot_of(text), len(text) - 1
    action = Action(kind, 0, end, holes_for(kind, snapshot, "???", 0, end), said)
    async with scripted_client(monkeypatch) as (worker, client):
        worker.fills = [""]
        with pytest.raises(ActionNotDoneError):
            await action.fill(client, snapshot, BUDGET.restarted())
    parts = [part for request in worker.requests for part in request.segments]
    assert [part.strength for part in parts if isinstance(part, Hole)] == asked


def test_repair_and_rework_are_both_offered() -> None:
    snapshot = snapshot_of(BROKEN)
    end = len(BROKEN) - 1
    diagnostics = [(0, end, "'(' was never closed")]
    found = [*actions.repair_actions(snapshot, "???", diagnostics), *actions.fill_actions(snapshot, "???", 0, end)]
    variants = [(action.kind.value, action.variant) for action in actions.distinct_actions(found)]
    assert variants == [("repair", ""), ("rework", "lightly"), ("rework", "halfway"), ("rework", "freely")]

"""How much of the text an action noises: the request's value, otherwise its kind's default."""

from contextlib import suppress

import pytest

from inference.messages import Hole
from lsp_server.actions import Action, ActionKind, NotDone, distinct, fills, holes_of, repairs
from lsp_server.documents.document import Document, Snapshot
from lsp_server.fill.pipeline import Budget
from lsp_server.worker.paths import WorkerPaths
from tests.lsp_server.lsp.listening import Listening

BUDGET = Budget(candidates=1, deadline_ms=60_000, max_steps=1)
BROKEN, WHOLE = "total = (item.price\n", "total = item.price\n"


def snapshot_of(text: str) -> Snapshot:
    return Document("file:///a.py", "python", 1, text).snapshot()


async def strengths(kind: ActionKind, text: str, strength: float | None) -> list[float]:
    """The strengths that the worker was asked for, one request after the other."""
    snapshot = snapshot_of(text)
    end = len(text) - 1
    action = Action(kind, 0, end, holes_of(kind, snapshot, "???", 0, end), strength)
    async with Listening() as worker:
        with suppress(NotDone):  # the embedded model may have nothing that fits
            await action.filled(worker, snapshot, BUDGET.from_now())
        return [part.strength for request in worker.asked for part in request.segments if isinstance(part, Hole)]


@pytest.mark.parametrize("strength", [0.2, 0.6, 1.0])
async def test_an_explicit_strength_is_used_as_given(resident: WorkerPaths, strength: float) -> None:
    assert await strengths(ActionKind.REPAIR, BROKEN, strength) == [strength]
    assert await strengths(ActionKind.REWORK, WHOLE, strength) == [strength]


async def test_broken_syntax_is_repaired_with_little_noise_first(resident: WorkerPaths) -> None:
    asked = await strengths(ActionKind.REPAIR, BROKEN, None)
    assert asked == [0.3, 0.6, 0.9][: len(asked)]
    assert asked


async def test_what_parses_is_repaired_with_the_usual_strength(resident: WorkerPaths) -> None:
    assert await strengths(ActionKind.REPAIR, WHOLE, None) == [0.6]
    assert await strengths(ActionKind.REWORK, WHOLE, None) == [0.6]


async def test_a_hole_is_filled_anew_whatever_was_said(resident: WorkerPaths) -> None:
    assert await strengths(ActionKind.FILL_FILE, "total = ???\n", 0.5) == [1.0]


def test_repair_and_rework_are_both_offered() -> None:
    snapshot = snapshot_of(BROKEN)
    end = len(BROKEN) - 1
    diagnostics = [(0, end, "'(' was never closed")]
    actions = [*repairs(snapshot, "???", diagnostics), *fills(snapshot, "???", 0, end)]
    variants = [(action.kind.value, action.variant) for action in distinct(actions)]
    assert variants == [("repair", ""), ("rework", "lightly"), ("rework", "halfway"), ("rework", "freely")]

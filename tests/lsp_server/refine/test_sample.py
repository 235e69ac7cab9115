"""Texts sent to the partner never enter shadow mode's sample, whatever the outcome."""

import asyncio
from pathlib import Path

import pytest

from inference.messages import HoleKind
from lsp_server.actions.action import Action
from lsp_server.actions.kinds import ActionKind, NotDone, holes_of
from lsp_server.carve import Span
from lsp_server.documents.tracking import TextRange
from lsp_server.handlers.action_edit import perform
from lsp_server.refine.comparison import NotRefined
from lsp_server.shadow.other_model import AnsweredRequest
from lsp_server.usage.place import STATE_VARIABLE
from tests.lsp_server.refine.test_cut_answers import BUDGET, TEXT, UNSURE, URI, Scene, refines, scene

DRAFT, SURE = "first(1)", "return y"


async def only_the_sure_one_is_compared(here: Scene) -> None:
    """A second request is in the sample. The oldest is asked first, so the first one is not in it."""
    here.partner.requests.clear()
    await here.suggestion(here.model, SURE, len(here.session.documents[URI].text), confidence=1.0)
    await here.partner.until(lambda: bool(here.partner.requests))
    (asked,) = here.partner.requests
    assert asked.background
    assert asked.segments[0].text.endswith("print(x)\n")


def answered(here: Scene, text: str) -> None:
    """The model's fill of the end of the first line, as an action is answered."""
    snapshot = here.session.snapshot(URI)
    span = Span(4, 4, HoleKind.LINE)
    place, about = TextRange(4, 4), ("action", BUDGET, "???", 5.0)
    here.session.shadow.answered(AnsweredRequest(snapshot, [span], [place], [text], *about, suggestions=[1]))
    here.session.refining.expect(snapshot, [span], [text], 0.4)


@pytest.mark.parametrize("how", ["unsure", "asked", "unsure fill", "action"])
async def test_a_better_draft_is_not_compared_either(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    settings = {**UNSURE, "refine": "unsure" if how.startswith("unsure") else "off", "shadow": {"sample": 1.0}}
    async with scene(monkeypatch, **settings) as here:
        here.partner.fills = [DRAFT]  # which it has nothing to add to
        if how in ("unsure", "asked"):
            draft = await here.suggestion(here.model, DRAFT)
            if how == "asked":
                with pytest.raises(NotRefined):
                    await here.session.refining.suggestion(URI, draft)
        else:
            answered(here, DRAFT)
            here.replace(4, "x = " + DRAFT)
        if how == "action":
            snapshot = here.session.snapshot(URI)
            holes = holes_of(ActionKind.REFINE, snapshot, "???", 4, 4 + len(DRAFT))
            with pytest.raises(NotDone):
                await perform(here.session, Action(ActionKind.REFINE, snapshot, holes), BUDGET, None)
        if tasks := refines():
            await asyncio.wait(tasks)
        here.partner.fills = None
        await only_the_sure_one_is_compared(here)


async def test_what_is_not_refined_is_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    async with scene(monkeypatch, refine="off", shadow={"sample": 1.0}) as here:
        await here.suggestion(here.model, DRAFT)
        await here.partner.until(lambda: bool(here.partner.requests))
        assert here.partner.requests[0].background
        assert here.partner.requests[0].segments[0].text == TEXT[:4]

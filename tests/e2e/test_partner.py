"""A partner as the only model, a real HTTP server with scripted answers: it suggests, fills and reworks."""

from typing import Any

import pytest

from tests.e2e.conftest import PATIENT, Start
from tests.e2e.test_refine import AT, DOCUMENT, END, PLAIN, REFINE, REFINED, Refiner, refined, user_of
from tests.e2e.user import User
from tests.partner_server import Asked, PartnerServer, partner_server
from tests.workers import until

HOLES = "first = ???\nsecond = ???\nthird = first + second\n"


def alone(server: PartnerServer, kind: str, **more: object) -> dict[str, Any]:
    partner = {"url": server.url, "kind": kind, "model": server.name}
    return {**PATIENT, "model": "partner", "partner": partner, "debounceMs": 0, **more}


def numbered(asked: Asked) -> str:
    return "11" if "first = 11" not in asked.prefix else "22"


@pytest.mark.parametrize("kind", ["chat", "qwen2.5-coder"])
async def test_partner_as_model_fills_everything(start: Start, kind: str) -> None:
    async with partner_server(answer=refined) as server:
        user = await user_of(start, alone(server, kind))
        for invoked in (False, True):
            first, *_ = await user.complete(invoked=invoked)
            assert first["insertText"] == REFINED
        status = await user.client.status()
        assert (status["model"], status["server"], status["partner"]) == (server.name, server.url, None)
        server.answer = numbered
        user = Refiner(user.client, HOLES)
        offered = await user.by_kind((0, 0), (0, 0))
        user.apply(await user.resolved(offered["refactor.rewrite.infill.fillFile"]))
        assert user.text == HOLES.replace("???", "11", 1).replace("???", "22", 1), "each sees the fills before it"


@pytest.mark.parametrize(("kind", "draft"), [("chat", "total"), ("infill", "")])
async def test_selection_is_reworked_or_rewritten(start: Start, kind: str, draft: str) -> None:
    async with partner_server(answer=refined) as server:
        user = await user_of(start, alone(server, kind), DOCUMENT.replace("return ", "return total"))
        offered = await user.by_kind(AT, END)
        assert REFINE not in offered  # it would be the same
        user.apply(await user.resolved(offered["refactor.rewrite.infill.rework.halfway"]))
        assert user.text == PLAIN.replace("return ", f"return {REFINED}")
        assert {asked.draft.strip() for asked in server.fills} == {draft}


async def test_without_a_url_the_user_is_told_which_setting_is_missing(start: Start) -> None:
    user = Refiner(await start({**PATIENT, "model": "partner"}), DOCUMENT)
    assert "partner.url: no URL is set" in (await until(lambda: user.client.shown))[0]
    assert await user.complete() == []


async def test_the_partner_gets_its_own_token_alone(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFILL_LS_PARTNER_TOKEN", "hush-partner")
    monkeypatch.setenv("INFILL_LS_SERVER_TOKEN", "hush-server")
    async with partner_server(answer=refined, token="hush-partner") as server:
        user = await user_of(start, alone(server, "chat"))
        first, *_ = await user.complete()
        assert first["insertText"] == REFINED
        assert {asked.headers["authorization"] for asked in server.asked} == {"Bearer hush-partner"}
        assert "hush" not in str(await user.client.status())


async def test_a_workspace_names_no_partner_and_switches_none_on(start: Start, tmp_path: Any) -> None:
    async with partner_server(answer=refined) as server:
        lines = f'model = "partner"\npartner = {{ url = "{server.url}" }}\n'
        (tmp_path / "infill-ls.toml").write_text(lines)
        client = await start(folders=[tmp_path])
        assert await User(client, DOCUMENT, uri=f"{tmp_path.as_uri()}/main.py").complete()
        status = await client.status()
        assert (status["model"], status["partner"]) == ("embedded", None)
        assert len([each for each in status["problems"] if "is ignored" in each or "from here" in each]) == 2
        assert server.asked == []

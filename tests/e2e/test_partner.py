"""A partner as the only model, a real HTTP server with scripted answers: it suggests, fills and reworks."""

from typing import Any

import pytest

from tests.e2e.conftest import PATIENT, StartRaw
from tests.e2e.test_refine import AT, DOCUMENT, REFINE, REFINED, User, refined, user_of
from tests.partner_server import Asked, PartnerServer, partner_server
from tests.workers import until

HOLES = "first = ???\nsecond = ???\nthird = first + second\n"


def alone(server: PartnerServer, kind: str, **more: object) -> dict[str, Any]:
    partner = {"url": server.url, "kind": kind, "model": server.name}
    return {**PATIENT, "model": "partner", "partner": partner, "debounceMs": 0, **more}


def numbered(asked: Asked) -> str:
    return "11" if "first = 11" not in asked.prefix else "22"


@pytest.mark.parametrize("kind", ["chat", "qwen2.5-coder"])
async def test_partner_as_model_fills_everything(start_raw: StartRaw, kind: str) -> None:
    async with partner_server(answer=refined) as server:
        user = await user_of(start_raw, alone(server, kind))
        for invoked in (False, True):
            first, *_ = await user.suggestions(invoked=invoked)
            assert first["insertText"] == REFINED
        status = await user.client.status()
        assert (status["model"], status["server"], status["partner"]) == (server.name, server.url, None)
        server.answer = numbered
        user = User(user.client, HOLES)
        offered = await user.actions((0, 0), (0, 0))
        user.apply(await user.resolved(offered["refactor.rewrite.infill.fillFile"]))
        assert user.text == HOLES.replace("???", "11", 1).replace("???", "22", 1), "each sees the fills before it"


@pytest.mark.parametrize(("kind", "draft"), [("chat", "total"), ("infill", "")])
async def test_selection_is_reworked_or_rewritten(start_raw: StartRaw, kind: str, draft: str) -> None:
    async with partner_server(answer=refined) as server:
        user = await user_of(start_raw, alone(server, kind), DOCUMENT.replace("return ", "return total"))
        offered = await user.actions(AT, (2, 16))
        assert REFINE not in offered  # it would be the same
        user.apply(await user.resolved(offered["refactor.rewrite.infill.rework.halfway"]))
        assert user.text == DOCUMENT.replace("return ", f"return {REFINED}")
        assert {asked.draft.strip() for asked in server.fills} == {draft}


async def test_without_a_url_the_user_is_told_which_setting_is_missing(start_raw: StartRaw) -> None:
    user = User(await start_raw({**PATIENT, "model": "partner"}))
    assert "partner.url: no URL is set" in (await until(lambda: user.client.shown))[0]
    assert await user.suggestions() == []


async def test_the_partner_gets_its_own_token_alone(start_raw: StartRaw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFILL_LS_PARTNER_TOKEN", "hush-partner")
    monkeypatch.setenv("INFILL_LS_SERVER_TOKEN", "hush-server")
    async with partner_server(answer=refined, token="hush-partner") as server:
        user = await user_of(start_raw, alone(server, "chat"))
        first, *_ = await user.suggestions()
        assert first["insertText"] == REFINED
        assert {asked.headers["authorization"] for asked in server.asked} == {"Bearer hush-partner"}
        assert "hush" not in str(await user.client.status())


async def test_a_workspace_names_no_partner_and_switches_none_on(start_raw: StartRaw, tmp_path: Any) -> None:
    async with partner_server(answer=refined) as server:
        lines = f'model = "partner"\npartner = {{ url = "{server.url}" }}\n'
        (tmp_path / "infill-ls.toml").write_text(lines)
        client = await start_raw(initialize=False)
        params = {
            "capabilities": {"textDocument": {"inlineCompletion": {}}},
            "initializationOptions": PATIENT,
            "workspaceFolders": [{"uri": tmp_path.as_uri(), "name": "a"}],
        }
        client.request("initialize", "initialize", params)
        await client.reply("initialize")
        client.send({"method": "initialized", "params": {}})
        uri = f"{tmp_path.as_uri()}/main.py"
        client.open(uri, DOCUMENT)
        client.complete("ask", uri, *AT, invoked=True)
        assert (await client.reply("ask"))["result"]["items"]
        status = await client.status()
        assert (status["model"], status["partner"]) == ("embedded", None)
        assert len([each for each in status["problems"] if "is ignored" in each or "from here" in each]) == 2
        assert server.asked == []

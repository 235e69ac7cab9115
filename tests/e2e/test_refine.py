"""A partner improves the model's drafts: a visible suggestion, a selection, a recent fill. Or it is the only model.

The language server, its workers and the embedded model are real; the partner is a real HTTP server with scripted
answers.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from inference.remote.address import PARTNER_SERVER
from inference.remote.server_token import token_file
from tests.e2e.conftest import PATIENT, Start
from tests.e2e.raw_client import Place, RawClient, between
from tests.e2e.user import User
from tests.partner_server import Asked, PartnerServer, partner_server
from tests.workers import ATTEMPTS, until

REFINE = "refactor.rewrite.infill.refine"
DOCUMENT = "def mean(numbers):\n    total = sum(numbers)\n    return ‸\n"
PLAIN = DOCUMENT.replace("‸", "")
AT, END = (2, 11), (2, 16)
REFINED = "total / len(numbers)"


def refined(asked: Asked) -> str:
    return REFINED


def with_partner(partner: PartnerServer, **more: object) -> dict[str, Any]:
    more = {"debounceMs": 0, "prefetch": False, **more}
    return {**PATIENT, "partner": {"url": partner.url, "kind": "chat"}, **more}


class Refiner(User):
    """Asks for suggestions at the cursor of DOCUMENT, and to have them improved."""

    async def by_kind(self, start: Place, end: Place) -> dict[str, dict[str, Any]]:
        return {action["kind"]: action for action in await self.actions(start, end)}

    async def draft(self) -> tuple[str, str]:
        """The first suggestion: its text, and its id."""
        first, *_ = await self.complete()
        return first["insertText"], self.id(first)

    async def refined(self, suggestion: str) -> dict[str, Any]:
        return await self.client.command("refineSuggestion", suggestion, self.uri)

    def configure(self, options: dict[str, Any]) -> None:
        params = {"settings": {"infill-ls": options}}
        self.client.send({"method": "workspace/didChangeConfiguration", "params": params})


async def user_of(start: Start, options: dict[str, Any], text: str = DOCUMENT) -> Refiner:
    client = await start(options)
    await client.becomes("ready")
    return Refiner(client, text)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared(runtime_folder: Path) -> AsyncIterator[tuple[RawClient, PartnerServer]]:
    """A server and its partner, which has been asked before."""
    async with partner_server(kinds=("chat",), answer=refined, name="gemma") as server:
        client = await RawClient.start(runtime_folder, with_partner(server))
        await client.becomes("ready")
        user = Refiner(client, "x = 1\n")
        assert (await user.by_kind((0, 4), (0, 5)))[REFINE]["title"].startswith("Refine with ")
        await user.resolved((await user.by_kind((0, 4), (0, 5)))[REFINE])
        yield client, server
        assert await client.quit() == 0


@pytest.fixture
def partner(shared: tuple[RawClient, PartnerServer]) -> PartnerServer:
    _, server = shared
    server.asked.clear()
    server.answer = refined
    server.hold.set()
    return server


@pytest.fixture
def user(shared: tuple[RawClient, PartnerServer], partner: PartnerServer) -> Refiner:
    return Refiner(shared[0], DOCUMENT)


async def test_refined_suggestion_keeps_the_draft_as_a_choice(user: Refiner, partner: PartnerServer) -> None:
    draft, name = await user.draft()
    assert draft != REFINED and partner.fills == []
    assert await user.refined(name) == {"applied": True, "reason": None}
    assert await until(lambda: user.told("infill/refined")) == [{"uri": user.uri, "id": name}]
    assert partner.fills[0].draft.strip() == draft.strip()
    for invoked in (True, False):
        first, *others = await user.complete(invoked=invoked)
        assert first["insertText"] == REFINED
        assert not invoked or REFINED.startswith(draft) or draft in [other["insertText"] for other in others]
    assert len(partner.fills) == 1


@pytest.mark.parametrize("ended", ["typed over", "rejected"])
async def test_what_is_gone_is_refined_no_more(user: Refiner, partner: PartnerServer, ended: str) -> None:
    _, name = await user.draft()
    partner.hold.clear()
    aborted = partner.aborted
    asking = asyncio.create_task(user.refined(name))
    await until(lambda: bool(partner.fills))
    if ended == "rejected":
        user.says("infill/didReject", id=name)
    else:
        user.type("zzz = 1")
    answer = await asking
    assert answer["applied"] is False and "gone" in answer["reason"]
    await until(lambda: partner.aborted > aborted)
    assert user.told("infill/refined") == []


async def test_what_is_typed_of_both_keeps_it(user: Refiner, partner: PartnerServer) -> None:
    draft, name = await user.draft()
    better = f"{draft[:2]}otal_refined"
    partner.answer = lambda _: better
    partner.hold.clear()
    asking = asyncio.create_task(user.refined(name))
    await until(lambda: bool(partner.fills))
    user.type(draft[:2])
    partner.hold.set()
    assert (await asking)["applied"] is True
    first, *_ = await user.complete(invoked=False)
    assert better.endswith(first["insertText"])


async def test_a_suggestion_that_is_not_known_is_no_suggestion(user: Refiner, partner: PartnerServer) -> None:
    answer = await user.refined("unknown")
    assert answer["applied"] is False and "gone" in answer["reason"]
    params = {"command": "infill-ls.refineSuggestion", "arguments": [{"id": 1}]}
    user.client.request("odd", "workspace/executeCommand", params)
    assert (await user.client.reply("odd"))["error"]["code"] == -32602
    assert partner.fills == []


async def test_a_selection_is_refined_and_nothing_else_changes(user: Refiner, partner: PartnerServer) -> None:
    user.type("total")
    offered = await user.by_kind(AT, END)
    assert offered[REFINE]["title"] == "Refine with gemma"
    user.apply(await user.resolved(offered[REFINE]))
    assert user.text == PLAIN.replace("return ", f"return {REFINED}")
    assert partner.fills[0].draft.strip() == "total"
    assert (await user.client.status())["partner"]["seesDrafts"] is True


async def test_without_a_selection_the_statement_is_refined(user: Refiner, partner: PartnerServer) -> None:
    user.type("total")
    data = {"uri": user.uri, "range": between(user.place(user.cursor)), "kind": "refine"}
    user.apply(await user.resolved({"title": "Refine", "kind": REFINE, "data": data}))
    assert user.text == PLAIN.replace("return ", REFINED)
    assert [asked.draft.strip() for asked in partner.fills] == ["return total"]


async def test_what_appears_by_itself_is_never_sent_to_the_partner(start: Start, partner: PartnerServer) -> None:
    options = with_partner(partner, suggestions="eager")
    options["partner"]["model"] = "never asked"  # so that it has a worker of its own, which is never started
    user = await user_of(start, options)
    for _ in range(ATTEMPTS):  # the small model may find nothing that fits
        if drafts := await user.complete(invoked=False):
            break
    user.says("infill/didAccept", id=user.id(drafts[0]))
    user.type(drafts[0]["insertText"])
    user.cursor = len(user.text)
    await user.complete(invoked=False)
    assert partner.asked == []
    assert (await user.client.status())["partner"]["state"] == "stopped"


async def test_without_a_partner_refining_says_what_to_do(start: Start) -> None:
    user = await user_of(start, PATIENT)
    answer = await user.refined((await user.draft())[1])
    assert answer["applied"] is False and "partner.url" in answer["reason"]
    assert REFINE not in await user.by_kind((1, 4), (1, 9))
    assert (await user.client.status())["partner"] is None


async def test_a_partner_that_sees_no_draft_rewrites(start: Start) -> None:
    async with partner_server(answer=refined) as server:
        partner = {"url": server.url, "kind": "suffix", "model": server.name}
        user = await user_of(start, {**PATIENT, "partner": partner}, DOCUMENT.replace("return ", "return total"))
        offered = (await user.by_kind(AT, END))[REFINE]
        assert offered["title"] == f"Rewrite with {server.name}"
        user.apply(await user.resolved(offered))
        assert user.text == PLAIN.replace("return ", f"return {REFINED}")
        assert {asked.draft for asked in server.fills} == {""}
        assert (await user.client.status())["partner"]["seesDrafts"] is False


async def not_refined(user: Refiner) -> str:
    """Why the partner made nothing of a draft, which is still there."""
    draft, name = await user.draft()
    answer = await user.refined(name)
    assert answer["applied"] is False
    again, *_ = await user.complete(invoked=False)
    assert again["insertText"] == draft
    assert user.told("infill/refined") == []
    return str(answer["reason"])


async def test_restart_rereads_the_token(start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = token_file(PARTNER_SERVER)
    file.parent.mkdir(parents=True)
    file.touch(0o600)
    file.write_text("hush-old")
    async with partner_server(kinds=("chat",), answer=refined, token="hush-old") as partner:
        user = await user_of(start, with_partner(partner))
        assert (await user.refined((await user.draft())[1]))["applied"] is True
        file.write_text("hush-new")
        partner.token = "hush-new"
        user = Refiner(user.client, DOCUMENT)
        assert "the partner did not answer" in await not_refined(user)
        assert (await user.client.command("restartWorker"))["applied"] is True
        assert (await user.refined((await user.draft())[1]))["applied"] is True


async def test_where_no_partner_is_there_the_draft_stays(start: Start) -> None:
    user = await user_of(start, {**PATIENT, "partner": {"url": "http://127.0.0.1:9", "kind": "chat"}})
    assert "127.0.0.1:9" in await not_refined(user)
    status = await user.client.status()
    assert status["partner"]["problem"] and status["partner"]["seesDrafts"] is None
    assert status["state"] == "ready"


async def test_where_the_partner_is_slow_the_draft_stays(user: Refiner, partner: PartnerServer) -> None:
    """Its deadline is the user's own, counted from when it is asked."""
    draft, name = await user.draft()
    partner.hold.clear()
    user.configure({"deadlineMs": {"invoked": 300}})
    answer = await user.refined(name)
    user.configure({"deadlineMs": PATIENT["deadlineMs"]})
    assert answer["applied"] is False and "300 ms" in answer["reason"]
    assert (await user.complete(invoked=False))[0]["insertText"] == draft


async def test_where_the_partner_writes_nonsense_the_draft_stays(user: Refiner, partner: PartnerServer) -> None:
    partner.answer = lambda _: "\x1b[31m\x07"
    assert await not_refined(user)


HOLES = "first = ???\nsecond = ???\nthird = first + second\n"


def by_partner(server: PartnerServer, kind: str, **more: object) -> dict[str, Any]:
    partner = {"url": server.url, "kind": kind, "model": server.name}
    return {**PATIENT, "model": "partner", "partner": partner, "debounceMs": 0, **more}


@pytest.mark.parametrize("kind", ["chat", "qwen2.5-coder"])
async def test_partner_as_model_fills_everything(start: Start, kind: str) -> None:
    async with partner_server(answer=refined) as server:
        user = await user_of(start, by_partner(server, kind))
        for invoked in (False, True):
            first, *_ = await user.complete(invoked=invoked)
            assert first["insertText"] == REFINED
        status = await user.client.status()
        assert (status["model"], status["server"], status["partner"]) == (server.name, server.url, None)
        server.answer = lambda asked: "22" if "first = 11" in asked.prefix else "11"
        user = Refiner(user.client, HOLES)
        offered = await user.by_kind((0, 0), (0, 0))
        user.apply(await user.resolved(offered["refactor.rewrite.infill.fillFile"]))
        assert user.text == HOLES.replace("???", "11", 1).replace("???", "22", 1), "each sees the fills before it"


@pytest.mark.parametrize(("kind", "draft"), [("chat", "total"), ("infill", "")])
async def test_selection_is_reworked_or_rewritten(start: Start, kind: str, draft: str) -> None:
    async with partner_server(answer=refined) as server:
        user = await user_of(start, by_partner(server, kind), DOCUMENT.replace("return ", "return total"))
        offered = await user.by_kind(AT, END)
        assert REFINE not in offered  # it would be the same
        user.apply(await user.resolved(offered["refactor.rewrite.infill.rework.halfway"]))
        assert user.text == PLAIN.replace("return ", f"return {REFINED}")
        assert {asked.draft.strip() for asked in server.fills} == {draft}


async def test_without_a_url_the_user_is_told_which_setting_is_missing(start: Start) -> None:
    user = Refiner(await start({**PATIENT, "model": "partner"}), DOCUMENT)
    assert "partner.url: no URL is set" in (await until(lambda: user.client.shown))[0]
    assert await user.complete() == []

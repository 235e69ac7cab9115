"""A partner improves the model's drafts: a visible suggestion, a selection, a recent fill.

The language server, its workers and the embedded model are real; the partner is a real HTTP server with scripted
answers.
"""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from lsprotocol.types import Position

from inference.remote.address import PARTNER
from inference.remote.token import token_file
from tests.e2e import reference
from tests.e2e.conftest import PATIENT, StartRaw
from tests.e2e.raw_client import CAN, RawClient
from tests.e2e.typist import replaced
from tests.partner_server import Asked, PartnerServer, partner_server
from tests.workers import ATTEMPTS, until

_numbers = count(1)
REFINE = "refactor.rewrite.infill.refine"
DOCUMENT = "def mean(numbers):\n    total = sum(numbers)\n    return \n"
AT = (2, 11)
REFINED = "total / len(numbers)"


def refined(asked: Asked) -> str:
    return REFINED


def with_partner(partner: PartnerServer, **more: object) -> dict[str, Any]:
    more = {"debounceMs": 0, "prefetch": False, **more}
    return {**PATIENT, "partner": {"url": partner.url, "kind": "chat"}, **more}


class User:
    def __init__(self, client: RawClient, text: str = DOCUMENT) -> None:
        self.client, self.text, self.version, self._before = client, text, 1, len(client.notes)
        self.uri = f"file:///project/{next(_numbers)}/main.py"
        client.open(self.uri, text)

    async def suggestions(self, at: tuple[int, int] = AT, *, invoked: bool = True) -> list[dict[str, Any]]:
        position = {"line": at[0], "character": at[1]}
        context = {"triggerKind": 1 if invoked else 2}
        params = {"textDocument": {"uri": self.uri}, "position": position, "context": context}
        return (await self.client.ask("textDocument/inlineCompletion", params))["items"]

    def change(self, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        first, last = (reference.offset(self.text, Position(*place), "utf-16") for place in (start, end))
        self.version += 1
        self.text = replaced(self.client, self.uri, self.version, self.text, first, last, text)

    async def actions(self, start: tuple[int, int], end: tuple[int, int]) -> dict[str, dict[str, Any]]:
        return {action["kind"]: action for action in await self.client.actions(self.uri, start, end)}

    async def resolved(self, action: dict[str, Any]) -> list[dict[str, Any]]:
        return (await self.client.ask("codeAction/resolve", action))["edit"]["documentChanges"][0]["edits"]

    def apply(self, edits: list[dict[str, Any]]) -> None:
        for edit in reversed(edits):
            ends = [(edit["range"][name]["line"], edit["range"][name]["character"]) for name in ("start", "end")]
            self.change(ends[0], ends[1], edit["newText"])

    async def told(self, count: int = 1) -> list[dict[str, Any]]:
        """The notifications that something has become better, once there are so many."""
        await until(lambda: len(self.notes("infill/refined")) >= count)
        return self.notes("infill/refined")

    async def draft(self) -> tuple[str, str]:
        """The first suggestion: its text, and its id."""
        first, *_ = await self.suggestions()
        return first["insertText"], first["command"]["arguments"][0]

    async def refined(self, suggestion: str) -> dict[str, Any]:
        return await self.client.command("refineSuggestion", suggestion, self.uri)

    def configure(self, options: dict[str, Any]) -> None:
        params = {"settings": {"infill-ls": options}}
        self.client.send({"method": "workspace/didChangeConfiguration", "params": params})

    def notes(self, method: str) -> list[dict[str, Any]]:
        return [note["params"] for note in self.client.notes[self._before :] if note["method"] == method]


async def user_of(start_raw: StartRaw, options: dict[str, Any], text: str = DOCUMENT) -> User:
    client = await start_raw(options, capabilities=CAN)
    await client.becomes("ready")
    return User(client, text)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared(runtime_folder: Path) -> AsyncIterator[tuple[RawClient, PartnerServer]]:
    """A server and its partner, which has been asked before."""
    async with partner_server(kinds=("chat",), answer=refined, name="gemma") as server:
        client = await RawClient.start(runtime_folder, with_partner(server), capabilities=CAN)
        await client.becomes("ready")
        user = User(client, "x = 1\n")
        assert (await user.actions((0, 4), (0, 5)))[REFINE]["title"].startswith("Refine with ")
        await user.resolved((await user.actions((0, 4), (0, 5)))[REFINE])
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
def user(shared: tuple[RawClient, PartnerServer], partner: PartnerServer) -> User:
    return User(shared[0])


async def test_refined_suggestion_keeps_the_draft_as_a_choice(user: User, partner: PartnerServer) -> None:
    draft, name = await user.draft()
    assert draft != REFINED and partner.fills == []
    assert await user.refined(name) == {"applied": True, "reason": None}
    assert await user.told() == [{"uri": user.uri, "id": name}]
    assert partner.fills[0].draft.strip() == draft.strip()
    for invoked in (True, False):
        first, *others = await user.suggestions(invoked=invoked)
        assert first["insertText"] == REFINED
        assert not invoked or draft in [other["insertText"] for other in others]
    assert len(partner.fills) == 1


@pytest.mark.parametrize("ended", ["typed over", "rejected"])
async def test_what_is_gone_is_refined_no_more(user: User, partner: PartnerServer, ended: str) -> None:
    _, name = await user.draft()
    partner.hold.clear()
    aborted = partner.aborted
    asking = asyncio.create_task(user.refined(name))
    await partner.until(lambda server: bool(server.fills))
    if ended == "rejected":
        user.client.send({"method": "infill/didReject", "params": {"textDocument": {"uri": user.uri}, "id": name}})
    else:
        user.change(AT, AT, "zzz = 1")
    answer = await asking
    assert answer["applied"] is False and "gone" in answer["reason"]
    await partner.until(lambda server: server.aborted > aborted)
    assert user.notes("infill/refined") == []


async def test_what_is_typed_of_both_keeps_it(user: User, partner: PartnerServer) -> None:
    draft, name = await user.draft()
    better = f"{draft[:2]}otal_refined"
    partner.answer = lambda _: better
    partner.hold.clear()
    asking = asyncio.create_task(user.refined(name))
    await partner.until(lambda server: bool(server.fills))
    user.change(AT, AT, draft[:2])
    partner.hold.set()
    assert (await asking)["applied"] is True
    first, *_ = await user.suggestions((AT[0], AT[1] + 2), invoked=False)
    assert better.endswith(first["insertText"])


async def test_a_suggestion_that_is_not_known_is_no_suggestion(user: User, partner: PartnerServer) -> None:
    answer = await user.refined("unknown")
    assert answer["applied"] is False and "gone" in answer["reason"]
    params = {"command": "infill-ls.refineSuggestion", "arguments": [{"id": 1}]}
    user.client.request("odd", "workspace/executeCommand", params)
    assert (await user.client.reply("odd"))["error"]["code"] == -32602
    assert partner.fills == []


async def test_a_selection_is_refined_and_nothing_else_changes(user: User, partner: PartnerServer) -> None:
    user.change(AT, AT, "total")
    offered = await user.actions(AT, (2, 16))
    assert offered[REFINE]["title"] == "Refine with gemma"
    user.apply(await user.resolved(offered[REFINE]))
    assert user.text == DOCUMENT.replace("return ", f"return {REFINED}")
    assert partner.fills[0].draft.strip() == "total"
    assert (await user.client.status())["partner"]["seesDrafts"] is True


async def test_without_a_selection_the_statement_is_refined(user: User, partner: PartnerServer) -> None:
    user.change(AT, AT, "total")
    cursor = {"line": AT[0], "character": AT[1] + len("total")}
    data = {"uri": user.uri, "range": {"start": cursor, "end": cursor}, "kind": "refine"}
    user.apply(await user.resolved({"title": "Refine", "kind": REFINE, "data": data}))
    assert user.text == DOCUMENT.replace("return ", REFINED)
    assert [asked.draft.strip() for asked in partner.fills] == ["return total"]


async def test_what_appears_by_itself_is_never_sent_to_the_partner(start_raw: StartRaw, partner: PartnerServer) -> None:
    options = with_partner(partner, confidenceFloor=0)
    options["partner"]["model"] = "never asked"  # so that it has a worker of its own, which is never started
    user = await user_of(start_raw, options)
    for _ in range(ATTEMPTS):  # the small model may find nothing that fits
        if drafts := await user.suggestions(invoked=False):
            break
    accepted = {"textDocument": {"uri": user.uri}, "id": drafts[0]["command"]["arguments"][0]}
    user.client.send({"method": "infill/didAccept", "params": accepted})
    user.change(AT, AT, drafts[0]["insertText"])
    await user.suggestions((3, 0), invoked=False)
    assert partner.asked == []
    assert (await user.client.status())["partner"]["state"] == "stopped"


async def test_without_a_partner_refining_says_what_to_do(start_raw: StartRaw) -> None:
    user = await user_of(start_raw, PATIENT)
    answer = await user.refined((await user.draft())[1])
    assert answer["applied"] is False and "partner.url" in answer["reason"]
    assert REFINE not in await user.actions((1, 4), (1, 9))
    assert (await user.client.status())["partner"] is None


async def test_a_partner_that_sees_no_draft_rewrites(start_raw: StartRaw) -> None:
    async with partner_server(answer=refined) as server:
        partner = {"url": server.url, "kind": "suffix", "model": server.name}
        user = await user_of(start_raw, {**PATIENT, "partner": partner}, DOCUMENT.replace("return ", "return total"))
        offered = (await user.actions(AT, (2, 16)))[REFINE]
        assert offered["title"] == f"Rewrite with {server.name}"
        user.apply(await user.resolved(offered))
        assert user.text == DOCUMENT.replace("return ", f"return {REFINED}")
        assert {asked.draft for asked in server.fills} == {""}
        assert (await user.client.status())["partner"]["seesDrafts"] is False


async def not_refined(user: User) -> str:
    """Why the partner made nothing of a draft, which is still there."""
    draft, name = await user.draft()
    answer = await user.refined(name)
    assert answer["applied"] is False
    again, *_ = await user.suggestions(invoked=False)
    assert again["insertText"] == draft
    assert user.notes("infill/refined") == []
    return str(answer["reason"])


async def test_restart_rereads_the_token(start_raw: StartRaw, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = token_file(PARTNER)
    file.parent.mkdir(parents=True)
    file.touch(0o600)
    file.write_text("hush-old")
    async with partner_server(kinds=("chat",), answer=refined, token="hush-old") as partner:
        user = await user_of(start_raw, with_partner(partner))
        assert (await user.refined((await user.draft())[1]))["applied"] is True
        file.write_text("hush-new")
        partner.token = "hush-new"
        user = User(user.client)
        assert "the partner did not answer" in await not_refined(user)
        assert await user.client.command("restartWorker") == {"applied": True, "reason": None}
        assert (await user.refined((await user.draft())[1]))["applied"] is True


async def test_where_no_partner_is_there_the_draft_stays(start_raw: StartRaw) -> None:
    user = await user_of(start_raw, {**PATIENT, "partner": {"url": "http://127.0.0.1:9", "kind": "chat"}})
    assert "127.0.0.1:9" in await not_refined(user)
    status = await user.client.status()
    assert status["partner"]["problem"] and status["partner"]["seesDrafts"] is None
    assert status["state"] == "ready"


async def test_where_the_partner_is_slow_the_draft_stays(user: User, partner: PartnerServer) -> None:
    """Its deadline is the user's own, counted from when it is asked."""
    draft, name = await user.draft()
    partner.hold.clear()
    user.configure({"deadlineMs": {"invoked": 300}})
    answer = await user.refined(name)
    user.configure({"deadlineMs": PATIENT["deadlineMs"]})
    assert answer["applied"] is False and "300 ms" in answer["reason"]
    assert (await user.suggestions(invoked=False))[0]["insertText"] == draft


async def test_where_the_partner_writes_nonsense_the_draft_stays(user: User, partner: PartnerServer) -> None:
    partner.answer = lambda _: "\x1b[31m\x07"
    assert await not_refined(user)


async def test_a_partner_that_is_no_url_is_told_of_at_the_start(start_raw: StartRaw) -> None:
    user = await user_of(start_raw, {**PATIENT, "partner": {"url": "gpu.example:8080"}})
    (message,) = user.client.shown
    assert "partner.url" in message
    assert (await user.client.status())["partner"]["problem"].startswith("partner.url")

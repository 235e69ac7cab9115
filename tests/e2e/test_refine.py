"""A partner improves the model's drafts: a visible suggestion, a selection, a recent fill.

The language server, its workers and the embedded model are real; the partner is a real HTTP server with scripted
answers. Our own model is unsure of all that it writes here.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from inference.remote.token import PARTNER, token_file
from tests.e2e.conftest import PATIENT, StartRaw
from tests.e2e.raw_client import RawClient
from tests.partner_server import Asked, PartnerServer, partner_server
from tests.workers import ATTEMPTS, PATIENCE_S, short_folder

pytestmark = pytest.mark.asyncio(loop_scope="session")
URI = "file:///project/main.py"
OTHER = "file:///project/other.py"
REFINE = "refactor.rewrite.infill.refine"
DOCUMENT = "def mean(numbers):\n    total = sum(numbers)\n    return \n"
AT = (2, 11)
REFINED = "total / len(numbers)"
CAN = {
    "workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}},
    "textDocument": {
        "inlineCompletion": {},
        "codeAction": {
            "dataSupport": True,
            "resolveSupport": {"properties": ["edit"]},
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": []}},
        },
    },
}


def refined(asked: Asked) -> str:
    """What the partner writes, whatever it is asked."""
    return REFINED


@pytest_asyncio.fixture(loop_scope="session")
async def partner() -> AsyncIterator[PartnerServer]:
    async with partner_server(kinds=("chat",), answer=refined, name="gemma") as server:
        yield server


def with_partner(partner: PartnerServer, **more: object) -> dict[str, Any]:
    return {**PATIENT, "partner": {"url": partner.url, "kind": "chat"}, "debounceMs": 0, **more}


class User:
    """A user of one document, at a place of it."""

    def __init__(self, client: RawClient, text: str = DOCUMENT) -> None:
        self.client, self.text, self.version, self._asked = client, text, 1, 0
        client.open(URI, text)

    async def ask(self, method: str, params: Any) -> dict[str, Any]:
        self._asked += 1
        key = f"{method} {self._asked}"
        self.client.request(key, method, params)
        return await self.client.reply(key)

    async def meets(self, partner: PartnerServer) -> None:
        """Have the partner asked something, so that its worker runs and knows what it can do."""
        self.client.open(OTHER, "x = 1\n")
        (offered,) = [each for each in await self.offered(OTHER, (0, 4), (0, 5)) if each["kind"] == REFINE]
        await self.resolved(offered)
        partner.asked.clear()

    async def suggestions(self, at: tuple[int, int] = AT, *, invoked: bool = True) -> list[dict[str, Any]]:
        """The inline completions there."""
        position = {"line": at[0], "character": at[1]}
        context = {"triggerKind": 1 if invoked else 2}
        params = {"textDocument": {"uri": URI}, "position": position, "context": context}
        items: list[dict[str, Any]] = (await self.ask("textDocument/inlineCompletion", params))["result"]["items"]
        return items

    async def command(self, name: str, *arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = (
            await self.ask("workspace/executeCommand", {"command": f"infill-ls.{name}", "arguments": arguments})
        )["result"]
        return result

    def change(self, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        """Replace a range of one line."""
        lines = self.text.splitlines(keepends=True)
        offsets = [sum(map(len, lines[:line])) + character for line, character in (start, end)]
        self.text = self.text[: offsets[0]] + text + self.text[offsets[1] :]
        self.version += 1
        ends = [{"line": line, "character": character} for line, character in (start, end)]
        change = {"range": {"start": ends[0], "end": ends[1]}, "text": text}
        params = {"textDocument": {"uri": URI, "version": self.version}, "contentChanges": [change]}
        self.client.send({"method": "textDocument/didChange", "params": params})

    async def offered(self, uri: str, start: tuple[int, int], end: tuple[int, int]) -> list[dict[str, Any]]:
        """The actions that are offered there."""
        ends = [{"line": line, "character": character} for line, character in (start, end)]
        range_ = {"start": ends[0], "end": ends[1]}
        params = {"textDocument": {"uri": uri}, "range": range_, "context": {"diagnostics": []}}
        actions: list[dict[str, Any]] = (await self.ask("textDocument/codeAction", params))["result"]
        return actions

    async def actions(self, start: tuple[int, int], end: tuple[int, int]) -> dict[str, dict[str, Any]]:
        """The same in the document, by their kinds."""
        return {action["kind"]: action for action in await self.offered(URI, start, end)}

    async def resolved(self, action: dict[str, Any]) -> list[dict[str, Any]]:
        """The edits of an action."""
        answer = await self.ask("codeAction/resolve", action)
        assert "result" in answer, answer
        edits: list[dict[str, Any]] = answer["result"]["edit"]["documentChanges"][0]["edits"]
        return edits

    def apply(self, edits: list[dict[str, Any]]) -> None:
        """Put the edits into the document, as an editor does."""
        for edit in reversed(edits):
            ends = [(edit["range"][name]["line"], edit["range"][name]["character"]) for name in ("start", "end")]
            self.change(ends[0], ends[1], edit["newText"])

    async def told(self, count: int = 1) -> list[dict[str, Any]]:
        """The notifications that something has become better, once there are so many."""
        async with asyncio.timeout(PATIENCE_S):
            while len(found := self.notes("infill/refined")) < count:
                await asyncio.sleep(0.02)
        return found

    def notes(self, method: str) -> list[dict[str, Any]]:
        return [note["params"] for note in self.client.notes if note["method"] == method]

    @property
    def shown(self) -> list[str]:
        """The messages that the user was shown."""
        return [note["message"] for note in self.notes("window/showMessage")]


async def user_of(start_raw: StartRaw, options: dict[str, Any], text: str = DOCUMENT) -> User:
    client = await start_raw(options, capabilities=CAN)
    await client.becomes("ready")
    return User(client, text)


async def test_refined_suggestion_keeps_the_draft_as_a_choice(start_raw: StartRaw, partner: PartnerServer) -> None:
    user = await user_of(start_raw, with_partner(partner))
    draft, *_ = await user.suggestions()
    assert draft["insertText"] != REFINED and partner.fills == []
    answer = await user.command("refineSuggestion", draft["command"]["arguments"][0], URI)
    assert answer == {"applied": True, "reason": None}
    assert await user.told() == [{"uri": URI, "id": draft["command"]["arguments"][0]}]
    (asked,) = partner.fills
    assert asked.draft.strip() == draft["insertText"].strip()
    for invoked in (True, False):
        first, *others = await user.suggestions(invoked=invoked)
        assert first["insertText"] == REFINED
        assert not invoked or draft["insertText"] in [other["insertText"] for other in others]
    assert len(partner.fills) == 1


async def test_typing_something_else_ends_the_refinement(start_raw: StartRaw, partner: PartnerServer) -> None:
    user = await user_of(start_raw, with_partner(partner))
    await user.meets(partner)
    draft, *_ = await user.suggestions()
    partner.hold.clear()
    asking = asyncio.create_task(user.command("refineSuggestion", draft["command"]["arguments"][0], URI))
    await partner.until(lambda server: bool(server.fills))
    user.change(AT, AT, "zzz = 1")
    await user.client.status()  # by now it has been read
    partner.hold.set()
    answer = await asking
    assert answer["applied"] is False and "gone" in answer["reason"]
    assert user.notes("infill/refined") == []


async def test_what_is_typed_of_both_keeps_it(start_raw: StartRaw, partner: PartnerServer) -> None:
    """The draft and what the partner makes of it begin alike."""
    user = await user_of(start_raw, with_partner(partner))
    await user.meets(partner)
    draft, *_ = await user.suggestions()
    start = draft["insertText"][:2]
    partner.answer = lambda _: f"{start}otal_refined"
    partner.hold.clear()
    asking = asyncio.create_task(user.command("refineSuggestion", draft["command"]["arguments"][0], URI))
    await partner.until(lambda server: bool(server.fills))
    user.change(AT, AT, start)
    partner.hold.set()
    assert (await asking)["applied"] is True
    first, *_ = await user.suggestions((AT[0], AT[1] + 2), invoked=False)
    assert f"{start}otal_refined".endswith(first["insertText"]) or first["insertText"] == f"{start}otal_refined"


async def test_a_rejected_suggestion_is_refined_no_more(start_raw: StartRaw, partner: PartnerServer) -> None:
    user = await user_of(start_raw, with_partner(partner))
    await user.meets(partner)
    draft, *_ = await user.suggestions()
    suggestion = draft["command"]["arguments"][0]
    partner.hold.clear()
    asking = asyncio.create_task(user.command("refineSuggestion", suggestion, URI))
    await partner.until(lambda server: bool(server.fills))
    params = {"textDocument": {"uri": URI}, "id": suggestion}
    user.client.send({"method": "infill/didReject", "params": params})
    assert (await asking)["applied"] is False
    await partner.until(lambda server: server.aborted == 1)
    assert user.notes("infill/refined") == []


async def test_a_suggestion_that_is_not_known_is_no_suggestion(start_raw: StartRaw, partner: PartnerServer) -> None:
    user = await user_of(start_raw, with_partner(partner))
    answer = await user.command("refineSuggestion", "unknown", URI)
    assert answer["applied"] is False and "gone" in answer["reason"]
    refused = await user.ask(
        "workspace/executeCommand", {"command": "infill-ls.refineSuggestion", "arguments": [{"id": 1}]}
    )
    assert refused["error"]["code"] == -32602
    assert partner.fills == []


async def test_a_selection_is_refined_and_nothing_else_changes(start_raw: StartRaw, partner: PartnerServer) -> None:
    text = DOCUMENT.replace("return ", "return total")
    user = await user_of(start_raw, with_partner(partner), text)
    offered = await user.actions(AT, (2, 16))
    assert offered[REFINE]["title"].startswith("Refine with ")
    user.apply(await user.resolved(offered[REFINE]))
    assert user.text == DOCUMENT.replace("return ", f"return {REFINED}")
    assert partner.fills[0].draft.strip() == "total"
    assert (await user.actions(AT, (2, 16)))[REFINE]["title"] == "Refine with gemma"
    assert (await user.client.status())["partner"]["seesDrafts"] is True


async def test_a_fill_just_made_is_refined_where_it_stands_by_now(start_raw: StartRaw, partner: PartnerServer) -> None:
    user = await user_of(start_raw, with_partner(partner), DOCUMENT.replace("return ", "return ???"))
    assert REFINE not in await user.actions(AT, AT)
    offered = await user.actions(AT, AT)
    user.apply(await user.resolved(offered["refactor.rewrite.infill.fillHole"]))
    drafted = user.text.splitlines()[2][11:]
    user.change((0, 0), (0, 0), "# a line above\n")
    at = (3, 11)
    edits = await user.resolved((await user.actions(at, at))[REFINE])
    user.apply(edits)
    assert user.text == "# a line above\n" + DOCUMENT.replace("return ", f"return {REFINED}")
    assert [asked.draft.strip() for asked in partner.fills] == [drafted.strip()]


@pytest.mark.parametrize("accepted", ["unsaid", "after it"])
async def test_taken_suggestion_is_refined_and_nothing_behind_it(
    start_raw: StartRaw, partner: PartnerServer, accepted: str
) -> None:
    """Whether or not the editor says that it was taken."""
    text = DOCUMENT + "\n\nprint(mean([1, 2, 3]), mean([4, 5, 6]))\n"
    user = await user_of(start_raw, with_partner(partner, prefetch=False), text)
    draft, *_ = await user.suggestions()
    user.change(AT, AT, draft["insertText"])
    if accepted == "after it":
        taken = {"textDocument": {"uri": URI}, "id": draft["command"]["arguments"][0]}
        user.client.send({"method": "infill/didAccept", "params": taken})
    at = AT[0], AT[1] + len(draft["insertText"])
    user.apply(await user.resolved((await user.actions(at, at))[REFINE]))
    assert user.text == text.replace("return ", f"return {REFINED}")
    assert [asked.draft.strip() for asked in partner.fills] == [draft["insertText"].strip()]


async def test_refining_switched_off_while_loading_sends_nothing(start_raw: StartRaw, partner: PartnerServer) -> None:
    options = with_partner(partner, refine="unsure")
    user = await user_of(start_raw, options)
    partner.hold.clear()
    assert await user.suggestions()
    await partner.until(lambda server: bool(server.asked))  # its worker finds out what it can do
    settings = {"settings": {"infill-ls": options | {"refine": "off"}}}
    user.client.send({"method": "workspace/didChangeConfiguration", "params": settings})
    await user.client.status()  # by now it has been read
    partner.hold.set()
    user.client.open(OTHER, "x = 1\n")
    (offered,) = [each for each in await user.offered(OTHER, (0, 4), (0, 5)) if each["kind"] == REFINE]
    await user.resolved(offered)
    assert [asked.draft.strip() for asked in partner.fills] == ["1"], "what the user asked for, and no more"


async def test_what_appears_by_itself_is_never_sent_to_the_partner(partner: PartnerServer) -> None:
    """In a folder of its own, where no worker of an earlier partner at the same port is found running."""
    with short_folder() as folder:
        options = with_partner(partner, refine="unsure", confidenceFloor=0, idleSeconds=1)
        client = await RawClient.start(Path(folder), options, capabilities=CAN)
        await client.becomes("ready")
        user = User(client, DOCUMENT)
        for _ in range(ATTEMPTS):  # the small model may find nothing that fits
            if drafts := await user.suggestions(invoked=False):
                break
        accepted = {"textDocument": {"uri": URI}, "id": drafts[0]["command"]["arguments"][0]}
        client.send({"method": "infill/didAccept", "params": accepted})
        user.change(AT, AT, drafts[0]["insertText"])
        await user.suggestions((3, 0), invoked=False)
        assert partner.asked == []
        assert (await client.status())["partner"]["state"] == "stopped"
        assert await client.quit() == 0


BODY = "def add(a, b):\n    \n\n\nprint(add(1, 2))\n"
BETTER = "return a + b"
UNSURE = {"refine": "unsure", "maxSteps": 1}
"""With one step alone the model writes no body that it finds likely itself."""


async def test_better_text_for_a_fill_waits_until_asked_for(start_raw: StartRaw, partner: PartnerServer) -> None:
    partner.answer = lambda _: BETTER
    user = await user_of(start_raw, with_partner(partner, **UNSURE), BODY.replace("    \n", "    pass\n"))
    offered = await user.actions((1, 4), (1, 4))
    edits = await user.resolved(offered["refactor.rewrite.infill.fillHole"])
    assert partner.asked == []  # the editor has not applied it yet
    user.apply(edits)
    drafted = user.text
    (told,) = await user.told()
    assert user.text == drafted and user.notes("workspace/applyEdit") == []
    assert told["uri"] == URI and told["range"]["start"]["line"] == 1
    at = (1, 4)
    user.apply(await user.resolved((await user.actions(at, at))[REFINE]))
    assert user.text == BODY.replace("    \n", f"    {BETTER}\n")
    assert len(partner.fills) == 1  # it was ready
    assert user.shown == []


async def test_ready_text_does_not_answer_an_instruction(start_raw: StartRaw, partner: PartnerServer) -> None:
    partner.answer = lambda _: BETTER
    user = await user_of(start_raw, with_partner(partner, **UNSURE), BODY.replace("    \n", "    pass\n"))
    user.apply(await user.resolved((await user.actions((1, 4), (1, 4)))["refactor.rewrite.infill.fillHole"]))
    (told,) = await user.told()
    partner.answer = lambda _: "return b + a"
    argument = {"uri": URI, "range": told["range"], "instruction": "the other way round"}
    user.client.request("refine", "workspace/executeCommand", {"command": "infill-ls.refine", "arguments": [argument]})
    async with asyncio.timeout(PATIENCE_S):
        while not (edits := user.notes("workspace/applyEdit")):
            await asyncio.sleep(0.02)
    assert "return b + a" in str(edits)
    assert "the other way round" in str(partner.fills[-1].body)


async def test_unsure_of_a_suggestion_the_better_one_takes_its_place(
    start_raw: StartRaw, partner: PartnerServer
) -> None:
    partner.answer = lambda _: BETTER
    user = await user_of(start_raw, with_partner(partner, **UNSURE), BODY)
    draft, *_ = await user.suggestions((1, 4))
    assert await user.told() == [{"uri": URI, "id": draft["command"]["arguments"][0]}]
    first, *_ = await user.suggestions((1, 4), invoked=False)
    assert first["insertText"].strip() == BETTER
    assert len(partner.fills) == 1


async def test_without_a_partner_refining_says_what_to_do(start_raw: StartRaw) -> None:
    user = await user_of(start_raw, PATIENT)
    draft, *_ = await user.suggestions()
    answer = await user.command("refineSuggestion", draft["command"]["arguments"][0], URI)
    assert answer["applied"] is False and "partner.url" in answer["reason"]
    assert REFINE not in await user.actions((1, 4), (1, 9))
    assert (await user.client.status())["partner"] is None


@pytest.mark.parametrize("kind", ["suffix", "qwen2.5-coder"])
async def test_a_partner_that_sees_no_draft_rewrites(start_raw: StartRaw, kind: str) -> None:
    async with partner_server(answer=refined) as server:
        partner = {"url": server.url, "kind": kind, "model": server.name}
        user = await user_of(start_raw, {**PATIENT, "partner": partner}, DOCUMENT.replace("return ", "return total"))
        offered = (await user.actions(AT, (2, 16)))[REFINE]
        assert offered["title"] == f"Rewrite with {server.name}"
        user.apply(await user.resolved(offered))
        assert user.text == DOCUMENT.replace("return ", f"return {REFINED}")
        assert {asked.draft for asked in server.fills} == {""}
        assert (await user.client.status())["partner"]["seesDrafts"] is False


async def refined_by(user: User) -> tuple[dict[str, Any], dict[str, Any]]:
    """A draft, and what came of asking the partner about it; the draft is still there."""
    draft, *_ = await user.suggestions()
    answer = await user.command("refineSuggestion", draft["command"]["arguments"][0], URI)
    again, *_ = await user.suggestions(invoked=False)
    assert again["insertText"] == draft["insertText"]
    assert user.notes("infill/refined") == []
    return draft, answer


async def test_restart_rereads_the_partners_token(
    start_raw: StartRaw, partner: PartnerServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = token_file(PARTNER)
    file.parent.mkdir(parents=True)
    file.touch(0o600)
    file.write_text("hush-old")
    partner.token = "hush-old"
    user = await user_of(start_raw, with_partner(partner))
    await user.meets(partner)
    file.write_text("hush-new")
    partner.token = "hush-new"
    _, answer = await refined_by(user)
    assert answer["applied"] is False and "the partner cannot be asked" in answer["reason"]
    assert await user.command("restartWorker") == {"applied": True, "reason": None}
    draft, *_ = await user.suggestions()
    answer = await user.command("refineSuggestion", draft["command"]["arguments"][0], URI)
    assert answer == {"applied": True, "reason": None}


async def test_where_no_partner_is_there_the_draft_stays(start_raw: StartRaw, partner: PartnerServer) -> None:
    gone = {**PATIENT, "partner": {"url": "http://127.0.0.1:9", "kind": "chat"}}
    user = await user_of(start_raw, gone)
    _, answer = await refined_by(user)
    assert answer["applied"] is False and "127.0.0.1:9" in answer["reason"]
    assert (await user.client.status())["state"] == "ready"
    status = (await user.client.status())["partner"]
    assert status["problem"] and status["seesDrafts"] is None


async def test_a_partner_that_nobody_asked_for_fails_without_a_word(start_raw: StartRaw) -> None:
    gone = {**PATIENT, "partner": {"url": "http://127.0.0.1:9", "kind": "chat"}, **UNSURE}
    user = await user_of(start_raw, gone)
    assert await user.suggestions()
    async with asyncio.timeout(PATIENCE_S):
        while not (await user.client.status())["partner"]["problem"]:
            await asyncio.sleep(0.05)
    assert user.shown == []


async def test_where_the_partner_is_slow_the_draft_stays(start_raw: StartRaw, partner: PartnerServer) -> None:
    """Its deadline is the user's own, counted from when it is asked."""
    options = with_partner(partner) | {"deadlineMs": {"automatic": 60_000, "invoked": 3_000}}
    user = await user_of(start_raw, options)
    await user.meets(partner)
    draft, *_ = await user.suggestions()
    partner.hold.clear()
    answer = await user.command("refineSuggestion", draft["command"]["arguments"][0], URI)
    assert answer["applied"] is False and "3000 ms" in answer["reason"]
    again, *_ = await user.suggestions(invoked=False)
    assert again["insertText"] == draft["insertText"]


@pytest.mark.parametrize("wrong", ["", "\x1b[31m\x07"])
async def test_where_the_partner_writes_nonsense_the_draft_stays(
    start_raw: StartRaw, partner: PartnerServer, wrong: str
) -> None:
    partner.answer = lambda _: wrong
    user = await user_of(start_raw, with_partner(partner))
    _, answer = await refined_by(user)
    assert answer["applied"] is False and answer["reason"]


async def test_a_partner_that_is_no_url_is_told_of_at_the_start(start_raw: StartRaw) -> None:
    user = await user_of(start_raw, {**PATIENT, "partner": {"url": "gpu.example:8080"}})
    (message,) = user.shown
    assert "partner.url" in message
    assert (await user.client.status())["partner"]["problem"].startswith("partner.url")


async def test_two_editors_share_the_partner(start_raw: StartRaw, partner: PartnerServer) -> None:
    users = [await user_of(start_raw, with_partner(partner)) for _ in range(2)]
    drafts = [(await user.suggestions())[0]["command"]["arguments"][0] for user in users]
    asking = (user.command("refineSuggestion", draft, URI) for user, draft in zip(users, drafts, strict=True))
    assert [answer["applied"] for answer in await asyncio.gather(*asking)] == [True, True]
    for user, draft in zip(users, drafts, strict=True):
        assert await user.told() == [{"uri": URI, "id": draft}]

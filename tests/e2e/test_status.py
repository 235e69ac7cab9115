"""`infill/status` and `infill/didChangeStatus`: the model's state, at any time."""

from pathlib import Path

import pytest

from tests.e2e.conftest import Start, alone
from tests.e2e.raw_client import RawClient, Refused, capable
from tests.e2e.test_refine import by_partner
from tests.e2e.user import User
from tests.partner_server import partner_server
from tests.workers import until


async def test_a_ready_worker_says_what_it_runs(client: RawClient) -> None:
    user = User(client, "x = ‸")
    await user.complete()
    await until(lambda: {"ready", "busy"} <= {note["state"] for note in user.told("infill/didChangeStatus")})
    status = await client.status()
    assert status["state"] in ("ready", "busy")
    assert (status["model"], status["device"]) == ("embedded", "cpu")
    assert status["pid"] > 0
    assert status["memoryBytes"] > 0
    assert "off" not in status
    assert (await client.ask("infill/status", []))["pid"] == status["pid"], "an empty table of Lua"


@pytest.mark.parametrize(
    ("experimental", "expected"),
    [
        (None, set()),
        ({"infillNextEdits": True, "infillNotifications": False}, set()),
        ({"infillNotifications": True}, {"infill/didChangeStatus"}),
        ({"infillDrafts": False}, {"infill/didChangeStatus"}),
    ],
)
async def test_only_who_asks_gets_our_notifications(experimental: object, expected: set[str]) -> None:
    """A plugin from before `infillNotifications` names `infillDrafts`."""
    async with alone(capabilities=capable(experimental=experimental)) as client:
        await User(client, "x = ‸").complete()
        assert (await client.command("restartWorker"))["applied"]
        await User(client, "y = ‸").complete()
        await client.becomes("ready")
    assert {note["method"] for note in client.notes if "infill" in note["method"]} == expected


async def test_it_says_why_a_document_gets_nothing(start: Start) -> None:
    client = await start({"disabledLanguages": ["markdown"], "markr": "@@"})
    on, off, unknown = (
        User(client, "x = \n"),
        User(client, "# Title‸\n", "markdown"),
        User(client, "", "nothing-we-know", name="a.unknown"),
    )
    (problem,) = (await client.status())["problems"]
    assert "'markr' (did you mean 'marker'?)" in problem
    assert (await client.status(unknown.uri))["grammar"] is False
    assert (await client.status(on.uri))["off"] is None
    assert "disabledLanguages" in (await client.status(off.uri))["off"]
    assert (await client.status("file:///p/closed.py"))["off"] == "the document is not open"
    assert await off.complete() == []


async def test_it_says_why_nothing_comes_at_a_position(client: RawClient) -> None:
    document = {"textDocument": {"uri": User(client, "name = \n").uri}}
    places = ({"line": 0, "character": 7}, {"line": 0, "character": 2})
    at_end, in_word = [await client.ask("infill/status", {**document, "position": place}) for place in places]
    assert (at_end["noHole"], at_end["grammar"]) == (None, True)
    assert "middle of a word" in in_word["noHole"]
    with pytest.raises(Refused, match="invalid params for infill/status"):
        await client.ask("infill/status", {**document, "position": {"line": "x"}})


async def test_loading_shows_progress_and_survives_a_cancel() -> None:
    """A cold start in a runtime folder of its own: progress in the editor, states told, the first fill waits for it."""
    async with partner_server(holds=True) as server, alone(by_partner(server, "chat")) as client:
        user = User(client, "x = ‸")
        impatient = user.ask(invoked=True)
        await until(lambda: user.told("$/progress"))
        user.retype("y")  # what was asked about is gone
        assert await user.items(impatient) == []
        user.cursor = 1
        asked = user.ask(invoked=True)
        server.hold.set()
        await user.items(asked)
        (token,) = {note["token"] for note in user.told("$/progress")}
    kinds = user.kinds(token)
    assert (kinds[0], kinds[-1], kinds.count("end")) == ("begin", "end", 1)
    states = {note["state"] for note in client.told("infill/didChangeStatus")}
    assert states >= {"starting", "loading", "ready", "busy"}


async def test_failed_load_is_explained_once() -> None:
    async with alone({"model": "/no-such-model"}) as client:
        user = User(client, "x = ‸")
        for _ in range(3):
            assert await user.complete() == []
        status = await client.status()
        assert status["state"] in ("failed", "backing_off", "stopping", "stopped")
        assert "no-such-model" in status["lastFailure"]
        assert Path(status["log"]).is_file()
    (shown,) = client.shown
    assert "no-such-model" in shown

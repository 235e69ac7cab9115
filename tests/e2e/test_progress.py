"""What is shown of slow work: progress, step by step, from which it can be stopped, and the text of each hole."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests import reference
from tests.e2e.conftest import PATIENT, Start
from tests.e2e.raw_client import EVERYWHERE, RawClient, Refused, capable
from tests.e2e.user import User
from tests.workers import ATTEMPTS, until

REQUEST_CANCELLED = -32800
CODE = "def area(radius):\n    return ???\n"
LONG = "".join(f"def f{number}(x):\n    y = ???\n    return [x, ???]\n\n\n" for number in range(200))
"""More holes than anybody waits for."""
NEAR = "s = '😀𝔘'\r\ndef area(radius):\r\n    y = ???\r\n    return [radius, ???]\r\n"


@pytest_asyncio.fixture(loop_scope="session")
async def user(client: RawClient) -> AsyncIterator[User]:
    """With a document that takes long; its worker has nothing left to do afterwards."""
    yield User(client, LONG)
    await client.idle()


def stop(client: RawClient, token: object) -> None:
    client.send({"method": "window/workDoneProgress/cancel", "params": {"token": token}})


async def test_it_says_which_step_it_is_at_and_can_be_stopped(start: Start) -> None:
    user = User(await start({**PATIENT, "maxSteps": 64}), LONG)
    filling = asyncio.create_task(user.fill("fillFile", *EVERYWHERE, token="mine"))
    await until(lambda: user.kinds("mine").count("report") >= 3)
    assert (await user.client.status())["running"] == 1
    stop(user.client, "mine")
    assert await filling == {"applied": False, "reason": "cancelled"}
    assert (user.kinds("mine")[0], user.kinds("mine")[-1]) == ("begin", "end")
    begin = user.progress("mine")[0]
    assert begin["title"] == "infill-ls: filling 400 holes" and begin["cancellable"] is True
    assert user.edits == []
    reports = [value for value in user.progress("mine") if value["kind"] == "report"]
    assert all(" of 400, step " in report["message"] for report in reports)
    assert all(report["message"].startswith("hole") for report in reports)
    percentages = [report["percentage"] for report in reports]
    assert percentages == sorted(percentages)
    assert percentages[-1] < 100


async def test_long_code_action_shows_progress_and_stops(user: User) -> None:
    (action,) = await user.actions((0, 0), only="refactor.rewrite.infill.fillFile")
    resolving = asyncio.create_task(user.resolved(action))
    shown = (await until(lambda: user.told("$/progress")))[0]
    assert shown["value"]["title"] == "infill-ls: filling 400 holes"
    stop(user.client, shown["token"])
    with pytest.raises(Refused, match="^cancelled$") as stopped:
        await resolving
    assert stopped.value.code == REQUEST_CANCELLED
    assert user.kinds(shown["token"])[-1] == "end"


async def test_a_cancelled_request_ends_what_was_shown(user: User) -> None:
    argument = {"uri": user.uri, "range": reference.range_of(LONG, 0, 0, "utf-16")}
    params = {"command": "infill-ls.fillFile", "arguments": [argument], "workDoneToken": "gone"}
    user.client.request("long", "workspace/executeCommand", params)
    await until(lambda: user.kinds("gone"))
    user.client.cancel("long")
    assert (await user.client.reply("long"))["error"]["code"] == REQUEST_CANCELLED
    await until(lambda: user.kinds("gone")[-1] == "end")


async def test_every_stopped_request_is_answered(user: User) -> None:
    chance = random.Random(7)

    async def stopped(token: str) -> str:
        filling = asyncio.create_task(user.fill("fillFile", *EVERYWHERE, token=token))
        await until(lambda: user.kinds(token))
        await asyncio.sleep(chance.random() / 5)
        stop(user.client, token)
        return str((await filling)["reason"])

    tokens = [f"many-{number}" for number in range(10)]
    assert await asyncio.gather(*map(stopped, tokens)) == ["cancelled"] * 10
    for token in tokens:
        assert [kind for kind in user.kinds(token) if kind != "report"] == ["begin", "end"]


async def test_a_client_that_shows_no_progress_is_asked_for_none(start: Start) -> None:
    client = await start(capabilities=capable(window__workDoneProgress=False))
    await User(client, "".join(f"a{number} = [???, ???]\n" for number in range(3))).fill("fillFile", *EVERYWHERE)
    assert not [note for note in client.notes if "rogress" in note["method"]]


async def test_cancelling_what_is_not_running_does_nothing(client: RawClient) -> None:
    stop(client, "never heard of")
    user = User(client, CODE)
    await user.fill("fillFile", *EVERYWHERE, token="ended")
    stop(client, "ended")
    assert (await user.fill("fillFile", *EVERYWHERE, token="ended"))["reason"] != "cancelled"


async def test_a_draft_says_what_would_stand_in_each_hole(start: Start) -> None:
    can = capable(experimental__infillDrafts=True, general__positionEncodings=["utf-8"])
    user = User(await start(capabilities=can), NEAR)
    for _ in range(ATTEMPTS):
        version, answer = user.version, await user.fill("fillFile", *EVERYWHERE, token="mine")
        if answer["applied"] and user.drafts:
            break
        user.retype(NEAR)
        user.looks_again()
    for draft in user.drafts:
        about = (draft["uri"], draft["version"], draft["kind"], draft["token"])
        assert about == (user.uri, version, "action", "mine")
        assert 1 <= draft["step"] <= draft["maxSteps"]
        for hole in draft["holes"]:
            begin, end = reference.span(NEAR, hole["range"], "utf-8")
            assert NEAR[begin:end] == "???"
            user.check_draft(hole)
    seen = len(user.drafts)
    assert seen
    await user.client.status()  # whatever was sent before this answer has come
    assert len(user.drafts) == seen, "no draft follows the answer"


async def test_who_has_not_asked_for_drafts_gets_none(client: RawClient) -> None:
    user = User(client, NEAR)
    await user.fill("fillFile", *EVERYWHERE)
    assert user.drafts == []

"""`workspace/executeCommand`: the edit reaches the document by `workspace/applyEdit`, or the reply says why not."""

import asyncio

import pytest

from tests.e2e.conftest import PATIENT, Start, alone
from tests.e2e.raw_client import EVERYWHERE, Place, RawClient, Refused, between, capable
from tests.e2e.user import NOTHING_FITS, User
from tests.workers import ATTEMPTS, is_alive

INVALID_PARAMS = -32602
CODE = """\
def area(radius):
    squared = ???
    return ???


def total(items):
    amount = 0
    for item in items:
        amount = amount + item.price
    return amount


print(area(2), ???)
"""


@pytest.fixture
def user(client: RawClient) -> User:
    return User(client, CODE)


async def test_every_command_is_announced(client: RawClient) -> None:
    names = "fillHole fillFunction fillFile writeBody rework repair refine refineSuggestion didAccept restartWorker"
    names += " pullModel"
    announced = client.can["executeCommandProvider"]["commands"]
    assert sorted(announced) == sorted(f"infill-ls.{name}" for name in names.split())


@pytest.mark.parametrize(
    ("name", "at", "lines"),
    [
        ("fillHole", [(2, 0), (13, 0)], [2, 12]),
        ("fillFunction", [(0, 2)], [1, 2]),
        ("rework", [(8, 17), (8, 36)], [8]),
        ("repair", [(8, 26), (8, 36)], [8]),
    ],
)
async def test_a_command_changes_its_holes_alone(
    client: RawClient, name: str, at: list[Place], lines: list[int]
) -> None:
    code = CODE.replace("item.price\n", "item.price +\n") if name == "repair" else CODE
    user = User(client, code)
    await user.surely_fill(name, *at, **({"strength": 0.9} if name == "rework" else {}))
    old, new = code.split("\n"), user.text.split("\n")
    changed = {number for number, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]}
    assert changed and changed <= set(lines)
    for number in lines:
        assert new[number].startswith(old[number].split("???")[0] if "???" in old[number] else "        ")


async def test_holes_that_the_deadline_leaves_no_time_for_are_told_of(start: Start) -> None:
    await User(await start(PATIENT), CODE).surely_fill("fillHole", (1, 15))  # the model is loaded
    hurried = await start({**PATIENT, "deadlineMs": {"automatic": 1_000, "invoked": 10}})
    await hurried.becomes("ready")
    user = User(hurried, "".join(f"value_{number} = ???\n" for number in range(60)))
    for _ in range(ATTEMPTS):
        answer = await user.fill("fillFile", *EVERYWHERE)
        if answer["applied"]:
            break
        assert answer["reason"].startswith("no answer within 10 ms")
    assert 0 < (left := user.text.count("???")) < 60
    assert answer["reason"].startswith(f"{left} of 60 holes were left unchanged")


async def test_without_a_marker_the_cursor_decides_the_hole(client: RawClient) -> None:
    user = User(client, "def area(radius):\n    return \n")
    await user.surely_fill("fillHole", (1, 11))
    assert user.text.startswith("def area(radius):\n    return ")
    assert user.text.endswith("\n")
    assert len(user.text) > len("def area(radius):\n    return \n")


@pytest.mark.parametrize(
    ("name", "at", "reason"),
    [
        ("fillHole", [(5, 0), (6, 0)], "there is no hole here"),
        ("fillFunction", [(6, 8)], "there is no hole in the function here"),
        ("writeBody", [(12, 0)], "there is no function here"),
        ("rework", [(6, 0)], "select the code to rework"),
        ("repair", [(10, 0)], "there is no statement here"),
    ],
)
async def test_nothing_to_do_is_said_in_the_answer(user: User, name: str, at: list[Place], reason: str) -> None:
    assert await user.fill(name, *at) == {"applied": False, "reason": reason}
    assert user.text == CODE


async def test_text_that_is_not_noised_is_nothing_to_change(user: User) -> None:
    answer = await user.fill("rework", *user.around("amount + item.price"), strength=0)
    assert answer["reason"] == "nothing to change: the model would write what is already there"


async def test_an_edit_that_the_editor_refuses_is_not_called_applied(user: User) -> None:
    user.refuses = "the buffer is read-only"
    for _ in range(ATTEMPTS):
        answer = await user.fill("fillFile", *EVERYWHERE)
        if not str(answer["reason"]).startswith(NOTHING_FITS):
            break
    assert answer == {"applied": False, "reason": "the buffer is read-only"}
    assert len(user.edits) == 1


async def test_a_text_that_changes_meanwhile_is_left_alone(user: User) -> None:
    filling = asyncio.create_task(user.fill("fillFile", *EVERYWHERE))
    await asyncio.sleep(0)
    user.retype("x = 1\n" + CODE)
    answer = await filling
    assert answer["applied"] is False
    assert answer["reason"].startswith("the file has changed")
    assert user.edits == []


async def test_an_editor_that_cannot_apply_edits_is_told(start: Start) -> None:
    user = User(await start(capabilities=capable(workspace__applyEdit=None)), CODE)
    answer = await user.fill("fillFile", *EVERYWHERE)
    assert answer == {"applied": False, "reason": "this editor does not support workspace/applyEdit"}


PLACE = between((0, 0))


@pytest.mark.parametrize(
    ("command", "argument", "message"),
    [
        ("rework", None, "Expected object, got null"),
        ("rework", {"uri": "file:///a.py", "range": between((-1, 0), (0, 0))}, "start.line"),
        ("rework", {"uri": "file:///a.py", "range": PLACE, "strength": 2}, "$.strength"),
        ("rework", {"uri": "file:///a.py", "range": PLACE, "strength": "\ud800"}, "half a surrogate pair"),
        ("dance", None, "no such command: infill-ls.dance"),
    ],
)
async def test_senseless_commands_are_refused_by_name(
    client: RawClient, command: str, argument: object, message: str
) -> None:
    with pytest.raises(Refused) as refused:
        await client.command(command, argument)
    assert refused.value.code == INVALID_PARAMS
    assert command == "dance" or "invalid argument for infill-ls.rework" in str(refused.value)
    assert message in str(refused.value)


async def test_started_anew_twice_at_once_there_is_one_new_worker() -> None:
    async with alone() as client:
        user = User(client, CODE)
        await user.surely_fill("fillHole", (1, 15))
        before = (await client.status())["pid"]
        twice = await asyncio.gather(client.command("restartWorker"), client.command("restartWorker"))
        assert twice == [{"applied": True, "reason": None}] * 2
        assert client.shown == []
        now = await client.status()
        assert (now["pid"] != before, now["state"], now["clients"]) == (True, "ready", 1)
        assert not is_alive(before)
        await user.surely_fill("fillHole", (2, 12))


async def test_a_restart_tells_of_others_and_fails_none_of_them() -> None:
    async with alone() as client:
        other = await RawClient.start(client.runtime, PATIENT)
        user, theirs = User(client, CODE), User(other, CODE)
        await asyncio.gather(user.surely_fill("fillHole", (1, 15)), theirs.surely_fill("fillHole", (1, 15)))
        restart, _ = await asyncio.gather(client.command("restartWorker"), theirs.surely_fill("fillFunction", (0, 2)))
        assert restart == {
            "applied": True,
            "reason": "other clients that used the worker (1) get the new one with their next request",
        }
        assert [restart["reason"] in message for message in client.shown] == [True]
        await theirs.surely_fill("fillHole", (12, 12))
        assert (await other.status())["pid"] == (await client.status())["pid"]
        assert other.shown == []
        await other.quit()

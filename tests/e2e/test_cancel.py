"""Cancelling: exactly one reply to each request, and the worker stops too."""

import asyncio
import random
from typing import Any

import pytest

from inference.messages import MAX_STEPS
from tests.e2e.conftest import StartRaw
from tests.e2e.raw_client import RawClient

pytestmark = pytest.mark.asyncio(loop_scope="session")

CANCELLED = -32800
SLOW = {"deadlineMs": {"automatic": 60_000, "invoked": 60_000}, "maxSteps": MAX_STEPS}
TEXT = "def add(a, b):\n    return \n\n\nprint(???)\n"


async def test_a_cancelled_request_is_answered_as_cancelled(start_raw: StartRaw) -> None:
    client = await start_raw(SLOW)
    client.open("file:///p/a.py", TEXT)
    client.complete(1, "file:///p/a.py", 1, 11, invoked=True)
    await client.is_at_work()
    client.cancel(1)
    assert (await client.reply(1))["error"] == {"code": CANCELLED, "message": "cancelled"}


async def test_cancelling_twice_or_too_late_changes_nothing(start_raw: StartRaw) -> None:
    client = await start_raw(SLOW)
    client.open("file:///p/a.py", TEXT)
    client.complete(1, "file:///p/a.py", 1, 11)
    await client.is_at_work()
    client.cancel(1)
    client.cancel(1)
    await client.reply(1)
    client.cancel(1)
    await client.status()
    assert client.counts[1] == 1


async def test_each_request_of_a_storm_is_answered_once_and_the_worker_is_idle_after_it(start_raw: StartRaw) -> None:
    client = await start_raw()
    chance = random.Random(1)
    for number in range(6):
        client.open(f"file:///p/{number}.py", TEXT)
    cancelled = [await _ask_and_maybe_cancel(client, key, chance) for key in range(60)]
    for key in range(60):
        reply = await client.reply(key)
        assert "result" in reply or (cancelled[key] and reply["error"]["code"] == CANCELLED)
    status = await _settled(client)
    assert (status["running"], status["waiting"]) == (0, 0)
    assert set(client.counts.values()) == {1}
    assert 0 < sum(cancelled) < 60


async def _ask_and_maybe_cancel(client: RawClient, key: int, chance: random.Random) -> bool:
    uri = f"file:///p/{chance.randrange(6)}.py"
    if chance.random() < 0.3:
        document = {"uri": uri, "version": key + 2}
        change = {"textDocument": document, "contentChanges": [{"text": TEXT + f"# {key}\n"}]}
        client.send({"method": "textDocument/didChange", "params": change})
    client.complete(key, uri, 1, 11, invoked=chance.random() < 0.3)
    await asyncio.sleep(chance.choice([0, 0, 0.02]))
    if cancel := chance.random() < 0.5:
        client.cancel(key)
    return cancel


async def _settled(client: RawClient) -> dict[str, Any]:
    """The status once the worker has nothing left to do, or as it is after 10 seconds."""
    for _ in range(100):
        status = await client.status()
        if not (status["running"] or status["waiting"]):
            break
        await asyncio.sleep(0.1)
    return status

"""Cancelling: exactly one reply to each request, and the worker stops too."""

import pytest

from inference.messages import MAX_STEPS
from tests.e2e.conftest import StartRaw

pytestmark = pytest.mark.asyncio(loop_scope="session")

CANCELLED = -32800
LIMITS = {"automatic": 60_000, "invoked": 60_000}
SLOW = {"deadlineMs": LIMITS, "maxSteps": MAX_STEPS, "candidates": {"invoked": 8}}
TEXT = "def add(a, b):\n    return \n\n\nprint(???)\n"


async def test_a_cancelled_request_is_answered_as_cancelled(start_raw: StartRaw) -> None:
    client = await start_raw(SLOW)
    client.open("file:///p/a.py", TEXT)
    async with client.holding_the_worker():
        client.complete(1, "file:///p/a.py", 1, 11, invoked=True)
        await client.has_handed_on()
        client.cancel(1)
        assert (await client.reply(1))["error"] == {"code": CANCELLED, "message": "cancelled"}


async def test_cancelling_twice_or_too_late_changes_nothing(start_raw: StartRaw) -> None:
    client = await start_raw(SLOW)
    client.open("file:///p/a.py", TEXT)
    async with client.holding_the_worker():
        client.complete(1, "file:///p/a.py", 1, 11)
        await client.has_handed_on()
        client.cancel(1)
        client.cancel(1)
        await client.reply(1)
    client.cancel(1)
    await client.status()
    assert client.counts[1] == 1

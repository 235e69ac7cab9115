"""Requests are answered by their deadline: 1 ms ends before any model is loaded, or the worker is stopped."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Start, alone
from tests.e2e.raw_client import Refused
from tests.e2e.test_refine import by_partner
from tests.e2e.user import User
from tests.partner_server import partner_server
from tests.workers import infill_ls

MARKED = "x = ‸\ny = ???\n"
TEXT = MARKED.replace("‸", "")
MARK = (1, 5)
LOADING = "no answer within 1 ms: the model is still loading"


def within(invoked_ms: int, automatic_ms: int = 3_000) -> dict[str, Any]:
    return {"deadlineMs": {"automatic": automatic_ms, "invoked": invoked_ms}, "maxSteps": 8, "idleSeconds": 30}


async def test_an_automatic_completion_is_answered_by_its_deadline(start: Start) -> None:
    client = await start(within(60_000, automatic_ms=1_000))
    await User(client, MARKED).complete(invoked=False)
    user = User(client, MARKED)  # what is known of one document is no answer for another
    async with user.client.holding_the_worker():
        assert await user.complete(invoked=False) == []
        assert user.client.shown == []


async def test_while_the_model_loads_everybody_is_told_so() -> None:
    async with partner_server(holds=True) as server, alone(by_partner(server, "chat", **within(1, 1))) as client:
        user = User(client, MARKED)
        assert await user.complete(invoked=False) == []
        assert client.shown == [], "what appears by itself says nothing"
        (action, *_) = await user.actions(MARK)
        with pytest.raises(Refused, match=LOADING):
            await user.resolved(action)
        answer = await user.fill("fillHole", MARK)
        assert not answer["applied"]
        assert LOADING in answer["reason"]
        for _ in range(3):
            assert await user.complete() == []
        (told,) = client.shown
        assert LOADING in told


async def test_who_asks_is_told_that_the_worker_is_stopped(start: Start) -> None:
    client = await start(within(400, 60_000))
    await User(client, MARKED).complete(invoked=False)
    other, user = [User(client, MARKED) for _ in range(2)]
    async with client.holding_the_worker() as pid:
        (action, *_) = await user.actions(MARK)
        later = other.ask()
        with pytest.raises(Refused) as refused:
            await user.resolved(action)
        assert await user.complete() == []
        assert later not in client.replies, "its deadline comes later"
        for told in (str(refused.value), *client.shown):
            assert f"The worker (process {pid}) does not answer; it is stopped" in told
        assert len(client.shown) == 1


async def test_a_fill_with_a_deadline_does_not_wait_for_the_model(tmp_path: Path) -> None:
    folder, file = tmp_path / "run", tmp_path / "a.py"
    folder.mkdir(mode=0o700)
    file.write_text(TEXT)
    done = await asyncio.to_thread(infill_ls, "fill", file, "--deadline-ms", "1", "--json", folder=folder)
    await asyncio.to_thread(infill_ls, "worker", "--stop", folder=folder)
    assert done.returncode == 1
    assert LOADING in done.stderr
    assert done.stderr.count("\n") == 1
    found = json.loads(done.stdout)
    assert (found["candidates"], found["result"]) == ([], TEXT)
    assert LOADING in found["reason"]

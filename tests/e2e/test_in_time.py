"""Requests are answered by their deadline: 1 ms ends before any model is loaded, or the worker is stopped."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Start, alone
from tests.e2e.raw_client import RawClient, Refused
from tests.e2e.user import User
from tests.workers import Finished, infill_ls

MARKED = "x = ‸\ny = ???\n"
TEXT = MARKED.replace("‸", "")
MARK = (1, 5)
LOADING = "no answer within 1 ms: the model is still loading"


def within(invoked_ms: int, automatic_ms: int = 3_000) -> dict[str, Any]:
    return {"deadlineMs": {"automatic": automatic_ms, "invoked": invoked_ms}, "maxSteps": 8, "idleSeconds": 30}


@asynccontextmanager
async def cold() -> AsyncIterator[User]:
    async with alone(within(1, 1)) as client:
        yield User(client, MARKED)
        await client.becomes("ready")


async def test_an_invoked_completion_says_once_that_the_model_loads() -> None:
    async with cold() as user:
        assert await user.complete(invoked=False) == []
        assert user.client.shown == [], "what appears by itself says nothing"
        for _ in range(3):
            assert await user.complete() == []
        (told,) = user.client.shown
        assert LOADING in told


async def test_while_the_model_loads_actions_say_so() -> None:
    async with cold() as user:
        with pytest.raises(Refused, match=LOADING):
            await user.resolved((await user.actions(MARK))[0])
        answer = await user.fill("fillHole", MARK)
        assert not answer["applied"]
        assert LOADING in answer["reason"]


async def warm(client: RawClient) -> list[User]:
    """Two documents of an editor whose worker was asked before; what is known of one is no answer for another."""
    await User(client, MARKED).complete(invoked=False)
    return [User(client, MARKED) for _ in range(2)]


async def test_an_invoked_completion_says_that_the_worker_is_stopped(start: Start) -> None:
    other, user = await warm(await start(within(400)))
    async with user.client.holding_the_worker() as pid:
        later = other.ask()
        assert await user.complete() == []
        assert later not in user.client.replies, "its deadline comes later"
        (told,) = user.client.shown
        assert f"The worker (process {pid}) does not answer; it is stopped" in told


async def test_an_automatic_completion_is_answered_by_its_deadline(start: Start) -> None:
    user, _ = await warm(await start(within(60_000, automatic_ms=1_000)))
    async with user.client.holding_the_worker():
        began = time.monotonic()
        assert await user.complete(invoked=False) == []
        assert time.monotonic() - began < 1.3
        assert user.client.shown == []


async def test_an_action_says_that_the_worker_is_stopped(start: Start) -> None:
    other, user = await warm(await start(within(400)))
    async with user.client.holding_the_worker() as pid:
        (action, *_) = await user.actions(MARK)
        later = other.ask()
        with pytest.raises(Refused) as refused:
            await user.resolved(action)
        assert later not in user.client.replies, "its deadline comes later"
        assert f"The worker (process {pid}) does not answer; it is stopped" in str(refused.value)


async def test_a_worker_that_goes_on_answers_again(start: Start) -> None:
    user, _ = await warm(await start(within(60_000)))
    async with user.client.holding_the_worker() as pid:
        asked = user.ask(invoked=True)
        await user.client.has_handed_on()
    assert "error" not in await user.client.reply(asked)
    assert (await user.client.status())["pid"] == pid
    assert user.client.shown == []


async def filled(tmp_path: Path, *arguments: str) -> Finished:
    """`infill-ls fill FILE`, with a worker of its own that is killed afterwards."""
    folder, file = tmp_path / "run", tmp_path / "a.py"
    folder.mkdir(mode=0o700)
    file.write_text(TEXT)
    done = await asyncio.to_thread(infill_ls, "fill", file, *arguments, folder=folder)
    await asyncio.to_thread(infill_ls, "worker", "--stop", folder=folder)
    return done


async def test_a_fill_with_a_deadline_does_not_wait_for_the_model(tmp_path: Path) -> None:
    done = await filled(tmp_path, "--deadline-ms", "1", "--json")
    assert done.returncode == 1
    assert LOADING in done.stderr
    assert done.stderr.count("\n") == 1
    found = json.loads(done.stdout)
    assert (found["candidates"], found["result"]) == ([], TEXT)
    assert LOADING in found["reason"]


async def test_a_fill_without_a_deadline_waits_for_the_model(tmp_path: Path) -> None:
    done = await filled(tmp_path)
    assert "still loading" not in done.stderr
    assert done.returncode == 0 or "found nothing that fits" in done.stderr

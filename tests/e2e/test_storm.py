"""A thousand requests, fired and cancelled at random while the text changes; one reply each, and nothing grows."""

import asyncio
import random
import time
from itertools import count
from typing import Any

import psutil

from tests.e2e.conftest import PATIENT, Start
from tests.e2e.raw_client import RawClient
from tests.e2e.user import User
from tests.workers import PATIENCE_S

REQUESTS = 1_000
DOCUMENTS = 8
TEXT = "def add(a, b):\n    return \n\n\nprint(???)\n"
CANCELLED, REFUSED = -32800, -32803
_numbers = count(1)
QUICK = {**PATIENT, "maxSteps": 2, "debounceMs": 20}
SERVER_GROWTH_BYTES, WORKER_GROWTH_BYTES = 8 * 1024 * 1024, 80 * 1024 * 1024
"""Of the processes in the second half of the storm: the server kept 16 KB of each request, or the worker 160 KB.

The worker grows by some 40 MB until its cache and its allocator have what they need, and is flat from 1,500 on."""


class Storm:
    """Some users of one client, each with an action, and their requests, with those that were cancelled."""

    def __init__(self, client: RawClient, users: list[tuple[User, Any]]) -> None:
        self.client = client
        self.users = users
        self.chance = random.Random(5)
        self.asked: list[str] = []
        self.cancelled: set[str] = set()

    async def blow(self, requests: int) -> None:
        """Fire so many requests; wait for all the answers."""
        fired: list[str] = []
        for _ in range(requests):
            fired.append(self.fire(*self.chance.choice(self.users)))
            await asyncio.sleep(self.chance.choice([0, 0, 0.01, 0.03]))
            if self.chance.random() < 0.5:
                cancelled = self.chance.choice([fired[-1], fired[-1], self.chance.choice(fired)])
                self.client.cancel(cancelled)
                self.cancelled.add(cancelled)
        for key in fired:
            await self.client.reply(key)
        self.asked += fired

    def fire(self, user: User, action: Any) -> str:
        if self.chance.random() < 0.3:  # new text everywhere, so that nothing that is remembered goes on from it
            user.retype(f"{TEXT}# {self.chance.random()}\n")
            user.cursor = TEXT.index("\n\n")
        kind = self.chance.randrange(6)
        if kind < 4:
            return user.ask(invoked=kind == 0)
        key = f"fired {next(_numbers)}"
        if kind == 4:
            place = {"line": 1, "character": 11}
            self.client.request(key, "textDocument/completion", {"textDocument": {"uri": user.uri}, "position": place})
        else:
            self.client.request(key, "codeAction/resolve", action)
        return key


async def test_thousand_requests_get_one_answer_each(start: Start) -> None:
    client = await start(QUICK)
    users = [User(client, TEXT.replace("return ", "return ‸")) for _ in range(DOCUMENTS)]
    storm = Storm(client, [(user, (await user.actions((4, 7)))[0]) for user in users])
    sizes = []
    for _ in range(2):
        await storm.blow(REQUESTS // 2)
        status = await _settled(client)
        assert (status["state"], status["running"], status["waiting"]) == ("ready", 0, 0)
        sizes.append([psutil.Process(pid).memory_info().rss for pid in (client.process.pid, status["pid"])])
    assert [client.counts[key] for key in storm.asked] == [1] * REQUESTS
    for key in storm.asked:
        error = client.replies[key].get("error", {"code": None})
        assert error["code"] in (None, REFUSED) or (error["code"] == CANCELLED and key in storm.cancelled), error
    server, worker = (after - before for before, after in zip(*sizes, strict=True))
    assert server < SERVER_GROWTH_BYTES
    assert worker < WORKER_GROWTH_BYTES


async def _settled(client: RawClient) -> dict[str, Any]:
    """The status once the worker has nothing left to do, or as it is after a while."""
    give_up = time.monotonic() + PATIENCE_S
    while True:
        status = await client.status()
        idle = status["state"] == "ready" and not (status["running"] or status["waiting"])
        if idle or time.monotonic() > give_up:
            return status
        await asyncio.sleep(0.1)

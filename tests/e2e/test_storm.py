"""A thousand requests, fired and cancelled at random while the text changes; one reply each, and nothing grows."""

import asyncio
import random
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import psutil

from tests.e2e.conftest import PATIENT, Start
from tests.e2e.user import User

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

    def __init__(self, users: list[tuple[User, Any]], chance: random.Random, pauses_s: Sequence[float]) -> None:
        self.client = users[0][0].client
        self.users = users
        self.chance = chance
        self.pauses_s = pauses_s
        self.asked: list[str] = []
        self.cancelled: set[str] = set()

    async def blow(self, goes_on: Callable[[], bool]) -> None:
        """Fire requests for so long; wait for all the answers."""
        begin = len(self.asked)
        while goes_on():
            self.asked.append(self.fire(*self.chance.choice(self.users)))
            await asyncio.sleep(self.chance.choice(self.pauses_s))
            if self.chance.random() < 0.5:
                cancelled = self.chance.choice([*self.asked[-1:] * 2, self.chance.choice(self.asked[begin:])])
                self.client.cancel(cancelled)
                self.cancelled.add(cancelled)
        for key in self.asked[begin:]:
            await self.client.reply(key)

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
    by_user = [(user, (await user.actions((4, 7)))[0]) for user in users]
    storm = Storm(by_user, random.Random(5), [0, 0, 0.01, 0.03])
    sizes = []
    for half in (1, 2):
        await storm.blow(lambda half=half: len(storm.asked) < half * REQUESTS // 2)
        await client.becomes("ready")
        status = await client.idle()
        sizes.append([psutil.Process(pid).memory_info().rss for pid in (client.process.pid, status["pid"])])
    assert [client.counts[key] for key in storm.asked] == [1] * REQUESTS
    for key in storm.asked:
        error = client.replies[key].get("error", {"code": None})
        assert error["code"] in (None, REFUSED) or (error["code"] == CANCELLED and key in storm.cancelled), error
    server, worker = (after - before for before, after in zip(*sizes, strict=True))
    assert server < SERVER_GROWTH_BYTES
    assert worker < WORKER_GROWTH_BYTES

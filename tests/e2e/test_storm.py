"""A thousand requests, fired and cancelled at random while the text changes; one reply each, and nothing grows."""

import asyncio
import random
import time
from typing import Any

import psutil

from tests.e2e.conftest import PATIENT, StartRaw
from tests.e2e.raw_client import CAN, RawClient
from tests.workers import PATIENCE_S

REQUESTS = 1_000
DOCUMENTS = 8
TEXT = "def add(a, b):\n    return \n\n\nprint(???)\n"
CANCELLED, REFUSED = -32800, -32803
QUICK = {**PATIENT, "maxSteps": 2, "debounceMs": 20}
SERVER_GROWTH_BYTES, WORKER_GROWTH_BYTES = 8 * 1024 * 1024, 80 * 1024 * 1024
"""Of the processes in the second half of the storm: the server kept 16 KB of each request, or the worker 160 KB.

The worker grows by some 40 MB until its cache and its allocator have what they need, and is flat from 1,500 on."""


class Storm:
    """One client, the requests it has made, and which of them it has cancelled."""

    def __init__(self, client: RawClient, actions: dict[str, Any]) -> None:
        self.client = client
        self.actions = actions
        self.chance = random.Random(5)
        self.cancelled: set[int] = set()
        self.versions = dict.fromkeys(actions, 1)

    async def blow(self, keys: range) -> None:
        """Fire a request for each key; wait for all the answers."""
        for key in keys:
            self.fire(key, self.chance.choice(list(self.actions)))
            await asyncio.sleep(self.chance.choice([0, 0, 0.01, 0.03]))
            if self.chance.random() < 0.5:
                self.cancel(self.chance.choice([key, key, self.chance.randrange(keys.start, key + 1)]))
        for key in keys:
            await self.client.reply(key)

    def fire(self, key: int, uri: str) -> None:
        if self.chance.random() < 0.3:
            self.change(uri)
        kind = self.chance.randrange(6)
        place = {"line": 1, "character": 11}
        if kind < 4:
            self.client.complete(key, uri, 1, 11, invoked=kind == 0)
        elif kind == 4:
            self.client.request(key, "textDocument/completion", {"textDocument": {"uri": uri}, "position": place})
        else:
            self.client.request(key, "codeAction/resolve", self.actions[uri])

    def change(self, uri: str) -> None:
        """New text everywhere, so that nothing that is remembered goes on from it."""
        self.versions[uri] += 1
        document = {"uri": uri, "version": self.versions[uri]}
        params = {"textDocument": document, "contentChanges": [{"text": f"{TEXT}# {self.chance.random()}\n"}]}
        self.client.send({"method": "textDocument/didChange", "params": params})

    def cancel(self, key: int) -> None:
        self.client.cancel(key)
        self.cancelled.add(key)


async def test_thousand_requests_get_one_answer_each(start_raw: StartRaw) -> None:
    client = await start_raw(QUICK, capabilities=CAN)
    uris = [f"file:///p/{number}.py" for number in range(DOCUMENTS)]
    for uri in uris:
        client.open(uri, TEXT)
    storm = Storm(client, {uri: (await client.actions(uri, (4, 7)))[0] for uri in uris})
    sizes = []
    for keys in (range(REQUESTS // 2), range(REQUESTS // 2, REQUESTS)):
        await storm.blow(keys)
        status = await _settled(client)
        assert (status["state"], status["running"], status["waiting"]) == ("ready", 0, 0)
        sizes.append([psutil.Process(pid).memory_info().rss for pid in (client.process.pid, status["pid"])])
    assert all(client.counts[key] == 1 for key in range(REQUESTS))
    for key in range(REQUESTS):
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

"""Wild JSON-RPC over stdio: one reply to each request, and the real server keeps working."""

import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lsp_server.worker.paths import WorkerPaths
from tests.e2e.raw_client import RawClient
from tests.lsp_server.lsp.wild_messages import URI, VALID, assert_fit_for_a_client, body, owed
from tests.workers import until

OPTIONS = {"deadlineMs": {"automatic": 3_000, "invoked": 3_000}, "maxSteps": 1, "debounceMs": 0, "idleSeconds": 30}
TEXT = "def add(a, b):\n    return \n"


class Wild:
    """A client that keeps count of the replies it is owed."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.owed: Counter[Any] = Counter(["initialize"])

    async def check(self, sent: list[bytes]) -> None:
        for each in sent:
            self.client.send_bytes(each)
        self.owed += owed(sent)
        await until(lambda: self._told().total() >= self.owed.total())
        await self.client.status()  # what would be one too many had come before this
        assert self._told() == self.owed
        for reply in self.client.replies.values():
            assert_fit_for_a_client(reply)

    def _told(self) -> Counter[Any]:
        return Counter({key: n for key, n in self.client.counts.items() if not str(key).startswith("infill/status at")})


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def wild(runtime_folder: Path, resident: WorkerPaths) -> AsyncIterator[Wild]:
    """With a worker that has its model: nothing waits for that."""
    client = await RawClient.start(runtime_folder, OPTIONS, capabilities={})
    yield Wild(client)
    assert await client.quit() == 0


@settings(
    max_examples=40,
    deadline=None,
    database=None,
    phases=[Phase.generate],  # what has been sent cannot be taken back to send less
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**32))
async def test_each_request_gets_one_reply(wild: Wild, seed: int) -> None:
    chance = Random(seed)
    await wild.check([body(chance) for _ in range(chance.randint(1, 10))])


async def test_requests_cancelled_at_once_leave_no_warning(
    runtime_folder: Path, resident: WorkerPaths, capfd: pytest.CaptureFixture[str]
) -> None:
    client = await RawClient.start(runtime_folder, OPTIONS, capabilities={})
    client.open(URI, VALID["textDocument/didOpen"]["textDocument"]["text"])
    requests = [method for method in VALID if not method.startswith("$/") and method != "initialize"]
    for key, method in enumerate(requests):
        params = json.loads(json.dumps(VALID[method]).replace('"version": 2', '"version": 1'))
        client.request(key, method, params)
        client.cancel(key)
    assert await client.quit() == 0
    assert "never awaited" not in capfd.readouterr().err


async def test_after_all_that_it_still_fills(wild: Wild) -> None:
    wild.client.open("file:///p/last.py", TEXT)
    wild.client.complete("fill", "file:///p/last.py", 1, 11, invoked=True)
    assert "items" in (await wild.client.reply("fill"))["result"]

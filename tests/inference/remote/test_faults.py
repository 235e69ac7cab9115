"""A server that misbehaves during typing: through a real language server, its worker and a real HTTP server."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from inference.engine.engine import Engine
from tests.canvas_server import Answer, CanvasServer, canvas_server
from tests.e2e.raw_client import RawClient
from tests.e2e.user import CURSOR, User
from tests.inference.loaded import TWIN
from tests.workers import PATIENCE_S, short_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "import os\n\n\ndef read(path):\n    with open(path) as file:\n        return ‸\n\n\nprint(read('a'))\n"
KEYS, CANCELLED = 12, -32800


def broken_off(_: object) -> Answer:
    raise EOFError


FAULTS: dict[str, tuple[Callable[[object], Answer] | None, str]] = {
    "too many requests": (lambda _: (429, {"Retry-After": "2"}, {}), "too busy"),
    "cut off": (broken_off, "in the middle of its answer"),
    "no sense": (lambda _: (200, {}, {}), "an invalid answer"),
    "silent": (None, ""),
}
"""What the user is told; nothing of a server that takes too long, for there the deadline is kept as always."""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server(twin: Engine) -> AsyncIterator[CanvasServer]:
    async with canvas_server(twin, canvas_tokens=64) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def client(server: CanvasServer) -> AsyncIterator[RawClient]:
    with short_folder() as folder:
        words = ["--model", server.url, "--server-tokenizer", str(TWIN)]
        client = await RawClient.start(Path(folder), {"deadlineMs": {"automatic": 10_000}}, *words)  # for all its tries
        yield client
        assert await client.quit() == 0


class Typing:
    """One document. Each key asks for ghost text, and cancels the request of the key before it."""

    def __init__(self, client: RawClient) -> None:
        self.client, self.user, self.asked = client, User(client, TEXT), list[str]()

    def start_again(self) -> None:
        self.user.retype(TEXT.replace(CURSOR, ""))
        self.user.cursor = TEXT.index(CURSOR)

    def type(self, key: str, *, invoked: bool = False) -> None:
        self.user.type(key)
        if self.asked and self.asked[-1] not in self.client.replies:
            self.client.cancel(self.asked[-1])
        self.asked.append(self.user.ask(invoked=invoked))

    async def replies(self) -> list[dict[str, Any]]:
        """The replies to all requests, none of which is an error other than that of a cancelled request."""
        found = [await self.client.reply(key) for key in self.asked]
        errors = [one["error"] for one in found if one.get("error", {}).get("code") not in (None, CANCELLED)]
        assert not errors, "a server's fault is no error of typing"
        return found

    async def gets_text(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                self.start_again()
                self.type("p", invoked=True)  # what nobody asked for is quiet where the model is unsure
                if ((await self.replies())[-1].get("result") or {}).get("items"):
                    return
                await asyncio.sleep(0.3)

    @property
    def told(self) -> Counter[str]:
        return Counter(self.client.shown)


@pytest.mark.parametrize("fault", FAULTS)
async def test_outage_is_reported_once_and_recovers(server: CanvasServer, client: RawClient, fault: str) -> None:
    """`test_http.py` has for how long a server that is too busy is left alone."""
    instead, words = FAULTS[fault]
    editor = Typing(client)
    await editor.gets_text()
    if instead:
        server.instead = instead
    else:
        server.hold.clear()
    editor.start_again()
    before, asked_before, began = len(editor.asked), len(server.asked), time.monotonic()
    for number in range(KEYS):
        editor.type("abcdefghij"[number % 10])
        await asyncio.sleep(0.1)
    await editor.replies()
    lasted_s, count = time.monotonic() - began, len(server.asked) - asked_before
    while words and not any(words in message for message in editor.told):  # the deadline may have come while it slept
        editor.type("k")
        await editor.replies()
    server.instead = lambda _: None
    server.hold.set()
    await editor.gets_text()
    assert [editor.client.counts[key] for key in editor.asked[before : before + KEYS]] == [1] * KEYS
    said = [message for message in editor.told if (words or "server") in message]
    assert len(said) == (1 if words else 0), editor.told
    assert all(editor.told[message] == 1 for message in editor.told)
    assert count <= 2 * KEYS + 4, f"{count} requests in {lasted_s:.1f} s: two lengths for each key, and no more"
    if fault in ("too many requests", "cut off"):  # they may pass by themselves, so that they are tried again
        assert count <= 2 + 4 * lasted_s, f"{count} requests in {lasted_s:.1f} s"

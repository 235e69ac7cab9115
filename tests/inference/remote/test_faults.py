"""A server that misbehaves during typing: through a real language server, its worker and a real HTTP server."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from inference.engine import Engine
from tests.canvas_server import canvas_server
from tests.e2e.editor import environment
from tests.e2e.raw_client import RawClient
from tests.faulty_server import Fault, FaultyServer, faulty_server
from tests.inference.remote.asking import EMBEDDED
from tests.workers import PATIENCE_S, short_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "import os\n\n\ndef read(path):\n    with open(path) as file:\n        return \n\n\nprint(read('a'))\n"
LINE, COLUMN = 5, len("        return ")
URI = "file:///p/a.py"
KEYS, CANCELLED = 16, -32800
PAUSES = {Fault.REFUSED, Fault.TOO_MANY, Fault.STARTING, Fault.CUT_OFF}
"""Those that may pass by themselves, so that they are tried again."""
SAID = {
    Fault.REFUSED: "cannot be reached",
    Fault.TOO_MANY: "too busy",
    Fault.STARTING: "too busy",
    Fault.CUT_OFF: "broke off its answer",
    Fault.OTHER_MODEL: "does not exist",
    Fault.NO_PINS: "makes no sense",
    Fault.NARROW: "no larger than the served canvas",
    Fault.GARBAGE: "makes no sense",
    Fault.ENDLESS: "more than",
    Fault.ELSEWHERE: "sends us elsewhere",
    Fault.CRASHED: "look at its log",
}
"""What the user is told; nothing of a server that takes too long, for there the deadline is kept as always."""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server(embedded: Engine) -> AsyncIterator[FaultyServer]:
    async with canvas_server(embedded) as behind, faulty_server(behind) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def port(server: FaultyServer) -> AsyncIterator[int]:
    """Where a language server listens whose model is behind the faulty server."""
    with short_folder() as folder:
        words = ["--model", server.url, "--server-tokenizer", str(EMBEDDED)]
        command = [sys.executable, "-P", "-m", "lsp_server.cli", "serve", "--tcp", "127.0.0.1:0", *words]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, env=environment(Path(folder))
        )
        assert process.stdout is not None
        try:
            yield int((await process.stdout.readline()).decode().strip().rpartition(":")[2])
        finally:
            process.terminate()
            await process.wait()


class Typing:
    """One document. Each key asks for ghost text, and cancels the request of the key before it."""

    def __init__(self, client: RawClient) -> None:
        self.client, self.asked, self._version = client, list[str](), 1
        client.open(URI, TEXT)

    def start_again(self) -> None:
        """Replaces the whole text."""
        end = {"line": TEXT.count("\n"), "character": 0}
        self._change({"range": {"start": {"line": 0, "character": 0}, "end": end}, "text": TEXT})

    def type(self, key: str, behind: int = 0) -> None:
        """Types a key, this many characters behind the cursor of the first text."""
        at = {"line": LINE, "character": COLUMN + behind}
        self._change({"range": {"start": at, "end": at}, "text": key})
        if self.asked and self.asked[-1] not in self.client.replies:
            self.client.cancel(self.asked[-1])
        self.asked.append(f"key {len(self.asked)}")
        self.client.complete(self.asked[-1], URI, LINE, COLUMN + behind + 1)

    def _change(self, change: dict[str, Any]) -> None:
        self._version += 1
        params = {"textDocument": {"uri": URI, "version": self._version}, "contentChanges": [change]}
        self.client.send({"method": "textDocument/didChange", "params": params})

    async def replies(self) -> list[dict[str, Any]]:
        """The replies to all requests, none of which is an error other than that of a cancelled request."""
        found = [await self.client.reply(key) for key in self.asked]
        errors = [one["error"] for one in found if one.get("error", {}).get("code") not in (None, CANCELLED)]
        assert not errors, "a server's fault is no error of typing"
        return found

    async def gets_text(self) -> None:
        """Types, not quickly, until there is ghost text again."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                self.start_again()
                self.type("p")
                if ((await self.replies())[-1].get("result") or {}).get("items"):
                    return
                await asyncio.sleep(0.3)

    @property
    def told(self) -> Counter[str]:
        """How often the user was told each message."""
        shown = (note for note in self.client.notes if note["method"] == "window/showMessage")
        return Counter(note["params"]["message"] for note in shown)


@asynccontextmanager
async def typing_at(port: int) -> AsyncIterator[Typing]:
    """An editor with a file in which something is missing."""
    client = await RawClient.join(f"tcp://127.0.0.1:{port}")
    try:
        yield Typing(client)
    finally:
        await client.vanish()


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.NONE], ids=lambda fault: fault.name)
async def test_outage_is_reported_once_and_recovers(server: FaultyServer, port: int, fault: Fault) -> None:
    await server.begin(Fault.NONE)
    async with typing_at(port) as editor:
        await editor.gets_text()
        await server.begin(fault)
        editor.start_again()
        before, began = len(editor.asked), time.monotonic()
        for number in range(KEYS):
            editor.type("abcdefghij"[number % 10], number)
            await asyncio.sleep(0.1)
        await editor.replies()
        lasted_s = time.monotonic() - began
        asked = list(server.asked)
        await server.begin(Fault.NONE)
        await editor.gets_text()
        typed = editor.asked[before : before + KEYS]
        assert [editor.client.counts[key] for key in typed] == [1] * KEYS
        said = [message for message in editor.told if SAID.get(fault, "server") in message]
        assert len(said) == (1 if fault in SAID else 0), editor.told
        assert all(editor.told[message] == 1 for message in editor.told)
        assert len(asked) <= KEYS + 4, f"{len(asked)} requests in {lasted_s:.1f} s: one for each key, and no more"
        if fault in PAUSES:
            assert len(asked) <= 2 + 4 * lasted_s, f"{len(asked)} requests in {lasted_s:.1f} s"


async def test_retry_after_is_obeyed(server: FaultyServer, port: int) -> None:
    await server.begin(Fault.TOO_MANY)
    async with typing_at(port) as editor:
        for number in range(KEYS):
            editor.type("a", number)
            await asyncio.sleep(0.1)
        await editor.replies()
        first, *later = server.asked
        assert all(at - first >= server.retry_after_s for at in later if at - first > 0.2), [at - first for at in later]
        assert sum(at - first <= 0.2 for at in later) <= 8, "those that were on their way"
        await server.begin(Fault.NONE)
        await editor.gets_text()


async def test_no_text_is_sent_to_where_a_server_redirects(server: FaultyServer, port: int, embedded: Engine) -> None:
    async with canvas_server(embedded) as other, typing_at(port) as editor:
        server.elsewhere = f"{other.url}/v1/completions"
        await server.begin(Fault.ELSEWHERE)
        editor.type("a")
        await editor.replies()
        assert server.asked
        assert not other.asked
        await server.begin(Fault.NONE)

"""A server that misbehaves during typing: through a real language server, its worker and a real HTTP server."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from inference.bench.load_editor import LoadEditor
from inference.engine import Engine
from tests.canvas_server import canvas_server
from tests.e2e.editor import environment
from tests.faulty_server import Fault, FaultyServer, faulty_server
from tests.inference.remote.asking import EMBEDDED
from tests.workers import PATIENCE_S, short_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "import os\n\n\ndef read(path):\n    with open(path) as file:\n        return \n\n\nprint(read('a'))\n"
CURSOR = TEXT.index("return ") + len("return ")
KEYS = 16
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


@asynccontextmanager
async def editor_at(port: int) -> AsyncIterator[LoadEditor]:
    """An editor with a file in which something is missing."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    editor = LoadEditor(reader, writer, "file:///p/a.py")
    await editor.start("python", TEXT)
    try:
        yield editor
    finally:
        await editor.close()


async def gets_text(editor: LoadEditor) -> None:
    """Type, not quickly, until there is ghost text again."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            editor.replace_all(TEXT)
            editor.edit(CURSOR, 0, "p")
            await editor.all_answered(PATIENCE_S)
            if editor.requests[-1].has_text:
                return
            await asyncio.sleep(0.3)


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.NONE], ids=lambda fault: fault.name)
async def test_outage_is_reported_once_and_recovers(server: FaultyServer, port: int, fault: Fault) -> None:
    await server.begin(Fault.NONE)
    async with editor_at(port) as editor:
        await gets_text(editor)
        await server.begin(fault)
        editor.replace_all(TEXT)
        before, began = len(editor.requests), time.monotonic()
        for number in range(KEYS):
            editor.edit(CURSOR + number, 0, "abcdefghij"[number % 10])
            await asyncio.sleep(0.1)
        await editor.all_answered(PATIENCE_S)
        lasted_s = time.monotonic() - began
        asked = list(server.asked)
        await server.begin(Fault.NONE)
        await gets_text(editor)
        typed = editor.requests[before : before + KEYS]
        assert [request.replies for request in typed] == [1] * KEYS
        assert not any(request.error for request in editor.requests), "a server's fault is no error of typing"
        said = [message for message in editor.told if SAID.get(fault, "server") in message]
        assert len(said) == (1 if fault in SAID else 0), editor.told
        assert all(editor.told[message] == 1 for message in editor.told)
        assert len(asked) <= KEYS + 4, f"{len(asked)} requests in {lasted_s:.1f} s: one for each key, and no more"
        if fault in PAUSES:
            assert len(asked) <= 2 + 4 * lasted_s, f"{len(asked)} requests in {lasted_s:.1f} s"


async def test_retry_after_is_obeyed(server: FaultyServer, port: int) -> None:
    await server.begin(Fault.TOO_MANY)
    async with editor_at(port) as editor:
        for number in range(KEYS):
            editor.edit(CURSOR + number, 0, "a")
            await asyncio.sleep(0.1)
        await editor.all_answered(PATIENCE_S)
        first, *later = server.asked
        assert all(at - first >= server.retry_after_s for at in later if at - first > 0.2), [at - first for at in later]
        assert sum(at - first <= 0.2 for at in later) <= 8, "those that were on their way"
        await server.begin(Fault.NONE)
        await gets_text(editor)


async def test_no_text_is_sent_to_where_a_server_redirects(server: FaultyServer, port: int, embedded: Engine) -> None:
    async with canvas_server(embedded) as other, editor_at(port) as editor:
        server.elsewhere = f"{other.url}/v1/completions"
        await server.begin(Fault.ELSEWHERE)
        editor.edit(CURSOR, 0, "a")
        await editor.all_answered(PATIENCE_S)
        assert server.asked
        assert not other.asked
        await server.begin(Fault.NONE)

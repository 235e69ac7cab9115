"""Requests are answered by their deadline: 1 ms ends before any model is loaded, or the worker is stopped."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.e2e.conftest import StartRaw
from tests.e2e.raw_client import CAN, RawClient
from tests.workers import kill, short_folder

URI, OTHER = "file:///p/a.py", "file:///p/other.py"
TEXT = "x = \ny = ???\n"
MARK = {"start": {"line": 1, "character": 5}, "end": {"line": 1, "character": 5}}
LOADING = "no answer within 1 ms: the model is still loading"


def within(invoked_ms: int, automatic_ms: int = 3_000) -> dict[str, Any]:
    return {"deadlineMs": {"automatic": automatic_ms, "invoked": invoked_ms}, "maxSteps": 8, "idleSeconds": 30}


@asynccontextmanager
async def cold() -> AsyncIterator[RawClient]:
    with short_folder() as folder:
        client = await RawClient.start(Path(folder), within(1, 1), capabilities=CAN)
        client.open(URI, TEXT)
        yield client
        await client.becomes("ready")
        pid = (await client.status())["pid"]
        assert await client.quit() == 0
        kill(pid)


async def fill_action(client: RawClient) -> dict[str, Any]:
    params = {"textDocument": {"uri": URI}, "range": MARK, "context": {"diagnostics": []}}
    client.request("offer", "textDocument/codeAction", params)
    return (await client.reply("offer"))["result"][0]


async def test_an_invoked_completion_says_once_that_the_model_loads() -> None:
    async with cold() as client:
        for number in range(3):
            client.complete(number, URI, 0, 4, invoked=True)
            assert (await client.reply(number))["result"] == {"items": []}
        (told,) = client.shown
        assert LOADING in told


async def test_while_the_model_loads_what_appears_says_nothing() -> None:
    async with cold() as client:
        client.complete(1, URI, 0, 4)
        assert (await client.reply(1))["result"] == {"items": []}
        assert client.shown == []


async def test_while_the_model_loads_actions_say_so() -> None:
    async with cold() as client:
        client.request(1, "codeAction/resolve", await fill_action(client))
        assert LOADING in (await client.reply(1))["error"]["message"]
        argument = {"uri": URI, "range": MARK}
        client.request(2, "workspace/executeCommand", {"command": "infill-ls.fillHole", "arguments": [argument]})
        answer = (await client.reply(2))["result"]
        assert not answer["applied"]
        assert LOADING in answer["reason"]


@asynccontextmanager
async def stopped(client: RawClient) -> AsyncIterator[int]:
    """The worker, which was asked before, is stopped inside the block; its process."""
    for uri in ("file:///p/warm.py", OTHER, URI):  # what is known of one is no answer for another
        client.open(uri, TEXT)
    client.complete("warm", "file:///p/warm.py", 0, 4)
    await client.reply("warm")
    await client.becomes("ready")
    pid = (await client.status())["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_an_invoked_completion_says_that_the_worker_is_stopped(start_raw: StartRaw) -> None:
    client = await start_raw(within(400))
    async with stopped(client) as pid:
        client.complete("automatic, with a later deadline", OTHER, 0, 4)
        client.complete(1, URI, 0, 4, invoked=True)
        assert (await client.reply(1))["result"] == {"items": []}
        assert "automatic, with a later deadline" not in client.replies
        (told,) = client.shown
        assert f"The worker (process {pid}) does not answer; it is stopped" in told


async def test_an_automatic_completion_is_answered_by_its_deadline(start_raw: StartRaw) -> None:
    client = await start_raw(within(60_000, automatic_ms=1_000))
    async with stopped(client):
        began = time.monotonic()
        client.complete(1, OTHER, 0, 4)
        assert (await client.reply(1))["result"] == {"items": []}
        assert time.monotonic() - began < 1.3
        assert client.shown == []


async def test_an_action_says_that_the_worker_is_stopped(start_raw: StartRaw) -> None:
    client = await start_raw(within(400), capabilities=CAN)
    async with stopped(client) as pid:
        action = await fill_action(client)
        client.complete("automatic, with a later deadline", OTHER, 0, 4)
        client.request(1, "codeAction/resolve", action)
        message = (await client.reply(1))["error"]["message"]
        assert "automatic, with a later deadline" not in client.replies
        assert f"The worker (process {pid}) does not answer; it is stopped" in message


async def test_a_worker_that_goes_on_answers_again(start_raw: StartRaw) -> None:
    client = await start_raw(within(60_000))
    async with stopped(client) as pid:
        client.complete(1, URI, 0, 4, invoked=True)
        await client.has_handed_on()
    assert "error" not in await client.reply(1)
    assert (await client.status())["pid"] == pid
    assert client.shown == []


def filled(folder: Path, file: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """`infill-ls fill FILE`, with a worker of its own that is killed afterwards."""
    environment = os.environ | {"INFILL_LS_RUNTIME_DIR": str(folder)}
    words = [sys.executable, "-m", "lsp_server.cli"]
    done = subprocess.run([*words, "fill", str(file), *arguments], capture_output=True, text=True, env=environment)
    subprocess.run([*words, "worker", "--stop"], env=environment, capture_output=True, check=False)
    return done


async def test_a_fill_with_a_deadline_does_not_wait_for_the_model(tmp_path: Path) -> None:
    file, folder = tmp_path / "a.py", tmp_path / "run"
    file.write_text(TEXT)
    folder.mkdir(mode=0o700)
    done = await asyncio.to_thread(filled, folder, file, "--deadline-ms", "1", "--json")
    assert done.returncode == 1
    assert LOADING in done.stderr
    assert done.stderr.count("\n") == 1
    found = json.loads(done.stdout)
    assert (found["candidates"], found["result"]) == ([], TEXT)
    assert LOADING in found["reason"]


async def test_a_fill_without_a_deadline_waits_for_the_model(tmp_path: Path) -> None:
    file, folder = tmp_path / "a.py", tmp_path / "run"
    file.write_text(TEXT)
    folder.mkdir(mode=0o700)
    done = await asyncio.to_thread(filled, folder, file)
    assert "still loading" not in done.stderr
    assert done.returncode == 0 or "found nothing that fits" in done.stderr

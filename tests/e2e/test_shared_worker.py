"""Two servers and a command line share one worker; they recover when it is killed in mid-request."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from lsprotocol.types import InlineCompletionItem, Position
from pygls.exceptions import JsonRpcException

from lsp_server.worker.paths import WorkerPaths
from tests.e2e.conftest import PATIENT
from tests.e2e.editor import Editor, capabilities, here
from tests.workers import PATIENCE_S, RawClient, kill, short_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "def add(a, b):\n    return \n"
END = Position(1, 11)
MANY_HOLES = "def add(a, b):\n    return ???\n\n\n" * 12


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A runtime folder of our own: the worker in it is killed on the way."""
    with short_folder() as name:
        yield Path(name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def editors(folder: Path) -> AsyncIterator[list[Editor]]:
    """Two servers, started at once, each of which starts the worker if it is the first."""
    editors = list(await asyncio.gather(*(Editor.start(folder, capabilities(), PATIENT) for _ in range(2))))
    yield editors
    pid = (await editors[0].status()).pid
    for editor in editors:
        await editor.quit()
    kill(pid)


async def test_two_servers_and_a_command_line_share_one_worker(editors: list[Editor], folder: Path) -> None:
    document = folder / "marked.py"
    document.write_text("def add(a, b):\n    return ???\n")
    asking = asyncio.gather(*(completes(editor) for editor in editors))
    status, filled = await infill_ls(folder, "fill", "--json", str(document))
    assert status == 0
    assert filled["holes"][0]["text"]
    assert all(await asking)

    status, found = await infill_ls(folder, "status", "--json")
    assert status == 0
    (worker,) = found["workers"]
    assert worker["clients"] == 2
    assert {(await editor.status()).pid for editor in editors} == {worker["pid"]}
    assert "".join(log.read_text() for log in folder.glob("*.log")).count("listening") == 1


async def test_a_worker_killed_in_mid_request_is_replaced(editors: list[Editor], folder: Path) -> None:
    _, found = await infill_ls(folder, "status", "--json")
    (worker,) = found["workers"]
    witness = await RawClient.open(WorkerPaths(Path(worker["socket"]), Path(worker["log"])))
    uri = editors[0].open(MANY_HOLES)
    *_, action = await editors[0].actions(uri, here(Position(0, 0)))
    resolving = asyncio.create_task(editors[0].resolve(action))
    await witness.becomes(lambda status: status.running > 0)
    kill(worker["pid"])
    with pytest.raises(JsonRpcException, match="ended in mid-request"):
        await resolving

    assert all(await asyncio.gather(*(completes(editor) for editor in editors)))
    pids = {(await editor.status()).pid for editor in editors}
    assert len(pids) == 1
    assert worker["pid"] not in pids


async def test_status_says_when_nothing_runs() -> None:
    with short_folder() as empty:
        nothing = {"running": False, "workers": [], "silent": []}
        assert await infill_ls(Path(empty), "status", "--json") == (3, nothing)


async def completes(editor: Editor) -> list[InlineCompletionItem]:
    """A completion in a document of its own."""
    return await editor.complete(editor.open(TEXT), END)


async def infill_ls(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit status and JSON output of the command line."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lsp_server.cli", *arguments),
        env={**os.environ, "INFILL_LS_RUNTIME_DIR": str(folder)},
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_S):
        output, _ = await process.communicate()
    return process.returncode or 0, json.loads(output)

"""If nothing fits, every kind of request explains why. A scripted worker is at the socket."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from lsp_server.worker.paths import FOLDER_VARIABLE
from tests.e2e.editor import Editor, capabilities, everywhere
from tests.e2e.workbench import Workbench
from tests.lsp_server.inline.scripted_worker import ScriptedWorker, scripted_worker
from tests.workers import short_folder

USELESS = ["", "\ufffd", " "]
WHY = "the model found nothing that fits here; what it wrote is empty (2×), is no valid text (1×)"


@pytest_asyncio.fixture(loop_scope="session")
async def useless(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptedWorker]:
    """A worker whose answers are of no use, where commands and servers that a test starts look for one."""
    with short_folder() as folder:
        monkeypatch.setenv(FOLDER_VARIABLE, folder)
        async with scripted_worker() as worker:
            worker.fills = USELESS
            yield worker


async def test_on_the_command_line(useless: ScriptedWorker, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = ???\n")
    words = [sys.executable, "-m", "lsp_server.cli", "fill", str(file), "--json"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=pipe)
    found, said = await process.communicate()
    answer = json.loads(found)
    assert (process.returncode, answer["reason"], answer["candidates"]) == (1, WHY, [])
    assert (answer["result"], answer["holes"]) == ("x = ???\n", [{"line": 1, "column": 5, "text": "???"}])
    assert WHY in said.decode()
    assert [request.candidates for request in useless.requests] == [3, 8]


async def test_in_the_answer_to_a_command(useless: ScriptedWorker) -> None:
    editor = await Editor.start(Path(os.environ[FOLDER_VARIABLE]), capabilities(), {})
    bench = Workbench(editor)
    uri = bench.open("x = ???\n")
    assert await bench.fill("fillFile", uri, everywhere()) == {"applied": False, "reason": WHY}
    assert await editor.quit() == 0

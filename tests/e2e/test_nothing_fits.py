"""If nothing fits, every kind of request explains why. A scripted worker is at the socket."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from lsp_server.worker.paths import FOLDER_VARIABLE
from tests.e2e.conftest import PATIENT
from tests.e2e.raw_client import EVERYWHERE, RawClient
from tests.e2e.test_quiet import reason
from tests.e2e.user import User
from tests.lsp_server.inline.scripted_worker import ScriptedWorker, scripted_client
from tests.workers import infill_ls

WHY = "the model found nothing that fits here; what it wrote is empty (2×), is not valid text (1×)"


@pytest_asyncio.fixture(loop_scope="session")
async def useless(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptedWorker]:
    """A worker whose answers are of no use, where commands and servers that a test starts look for one."""
    async with scripted_client(monkeypatch) as (worker, _):
        worker.fills = ["", "\ufffd", " "]
        yield worker


async def test_on_the_command_line(useless: ScriptedWorker, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = ???\n")
    done = await asyncio.to_thread(infill_ls, "fill", file, "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["reason"], answer["candidates"]) == (1, WHY, [])
    assert (answer["result"], answer["holes"]) == ("x = ???\n", [{"line": 1, "column": 5, "text": "???"}])
    assert WHY in done.stderr
    assert [request.candidates for request in useless.requests] == [3, 8]


async def test_in_the_answer_to_a_command(useless: ScriptedWorker) -> None:
    client = await RawClient.start(Path(os.environ[FOLDER_VARIABLE]), PATIENT)
    assert await User(client, "x = ???\n").fill("fillFile", *EVERYWHERE) == {"applied": False, "reason": WHY}
    assert await client.quit() == 0


async def test_the_status_and_doctor_say_why_nothing_comes(useless: ScriptedWorker, tmp_path: Path) -> None:
    client = await RawClient.start(Path(os.environ[FOLDER_VARIABLE]), PATIENT)
    user = User(client, "x = ‸\n")
    assert await user.complete() == []
    assert await reason(user) == WHY
    useless.fills, useless.probs = ["1 + 2"], {"2": 0.05}
    user.type("1")
    assert await user.complete(invoked=False) == []
    assert "not sure enough" in await reason(user)
    assert await client.quit() == 0
    file = tmp_path / "a.py"
    file.write_text("x = \n")
    done = await asyncio.to_thread(infill_ls, "doctor", file, "--at", "1:5", "--json")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert "not sure enough" in checks["suggestion"]["found"]
    useless.probs = {}
    done = await asyncio.to_thread(infill_ls, "doctor", file, "--at", "1:5", "--json")
    assert "'1 + 2'" in done.stdout

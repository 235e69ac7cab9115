"""`infill-ls.pullModel`: a button downloads a model from a real hub on this machine, and the server uses it."""

import asyncio
import shutil
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from lsprotocol.types import Position

from tests.e2e.conftest import PATIENT
from tests.e2e.editor import Editor, capabilities, environment, here
from tests.e2e.workbench import Workbench
from tests.hub_server import Hub, hub_of
from tests.inference.models.test_gguf import FIM
from tests.served.to_gguf import main as write_gguf
from tests.workers import kill

pytestmark = pytest.mark.asyncio(loop_scope="module")
DOWNLOADS = {
    "qwen2.5-coder-0.5b": "Download the model qwen2.5-coder-0.5b (491 MB)",
    "qwen2.5-coder-1.5b": "Download the model qwen2.5-coder-1.5b (1117 MB)",
}
"""One of them, by the speed of the machine."""
NAME, REPO = "open-dcoder-0.5b", "fredzzp/open-dcoder-0.5B"
TWIN = Path(__file__).parents[1] / "data" / "twin"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with a small real checkpoint under a name of the catalogue."""
    files = tmp_path_factory.mktemp("hub") / "files"
    shutil.copytree(TWIN, files)
    with hub_of(REPO, files) as served:
        yield served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Workbench]:
    """A user who has set no model and pulled none, with a worker of their own."""
    home = tmp_path_factory.mktemp("home")
    (home / "llama").mkdir()
    write_gguf(FIM, home / "llama" / "coder.gguf")
    (home / "llama" / "torn-coder.gguf").write_bytes((home / "llama" / "coder.gguf").read_bytes()[:9999])
    more = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home / "models"), "HF_HUB_OFFLINE": "0"}
    more |= {"HOME": str(home), "LLAMA_CACHE": str(home / "llama")}
    can = capabilities()
    can.experimental = None
    editor = await Editor.start(home / "run", can, {**PATIENT, "device": "cpu"}, **more)
    yield Workbench(editor)
    status = await editor.status()
    assert await editor.quit() == 0
    if status.pid:
        kill(status.pid)


async def test_a_user_without_a_model_is_offered_one(bench: Workbench) -> None:
    uri = bench.open("x = \n")
    await bench.editor.complete(uri, Position(0, 4))
    await bench.until(lambda: bool(bench.editor.client.messages))
    (message,) = bench.editor.client.messages
    better = (await bench.editor.status()).better
    assert f"pick the code action “{DOWNLOADS[better]}”" in message.message
    assert message.message.endswith('/llama/coder.gguf"` from llama.cpp, which is already on this machine')
    *_, action = await bench.editor.actions(uri, here(Position(0, 4)))
    assert (action.title, action.command.command) == (DOWNLOADS[better], "infill-ls.pullModel")
    assert list(action.command.arguments) == [{"model": better}]


async def test_a_download_that_fails_says_why_and_changes_nothing(bench: Workbench, hub: Hub) -> None:
    hub.damaged = "model.safetensors"
    answer = await bench.command("infill-ls.pullModel", {"model": NAME})
    assert answer["applied"] is False
    assert "model.safetensors is not what the hub promised" in answer["reason"]
    hub.damaged = ""


async def test_a_pulled_model_is_used_at_once_with_its_progress_shown(bench: Workbench) -> None:
    answer = await bench.command("infill-ls.pullModel", {"model": NAME}, token="pull")
    assert answer == {"applied": True, "reason": None}
    assert (bench.kinds("pull")[0], bench.kinds("pull")[-1]) == ("begin", "end")
    status = await bench.editor.status()
    assert status.model == NAME
    assert "the best of what was pulled" in status.choice


async def test_a_pull_by_hand_ends_a_worker_without_a_real_model(hub: Hub, tmp_path: Path) -> None:
    """An editor's `auto` chose the embedded model; its next request gets the one that was pulled in a terminal."""
    more = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "models"), "HF_HUB_OFFLINE": "0"}
    editor = await Editor.start(tmp_path / "run", capabilities(), {**PATIENT, "device": "cpu"}, **more)
    uri = Workbench(editor).open("x = \n")
    await editor.complete(uri, Position(0, 4))
    assert (await editor.status()).model == "embedded"
    words = [sys.executable, "-m", "lsp_server.cli", "models", "pull", NAME]
    variables = {**environment(tmp_path / "run"), **more, "INFILL_LS_DEVICE": "cpu"}
    pull = await asyncio.create_subprocess_exec(*words, stdout=PIPE, env=variables)
    said, _ = await pull.communicate()
    assert "ended the worker that ran the bundled model" in said.decode()
    uri = Workbench(editor).open("y = \n")
    await editor.complete(uri, Position(0, 4))
    status = await editor.status()
    assert status.model == NAME
    assert await editor.quit() == 0
    kill(status.pid)

"""`infill-ls.pullModel`: a button downloads a model from a real hub on this machine, and the server uses it."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.conftest import PATIENT
from tests.e2e.raw_client import RawClient, capable
from tests.e2e.user import User
from tests.hub_server import Hub, hub_of
from tests.inference.models.test_gguf import FIM
from tests.served.to_gguf import main as write_gguf
from tests.workers import PATIENCE_S, infill_ls, kill, until

DOWNLOADS = {
    "qwen2.5-coder-0.5b": "Download the model qwen2.5-coder-0.5b (491 MB)",
    "qwen2.5-coder-1.5b": "Download the model qwen2.5-coder-1.5b (1.1 GB)",
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


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def user(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[User]:
    """A user who has set no model and pulled none, with a worker of their own."""
    home = tmp_path_factory.mktemp("home")
    (home / "llama").mkdir()
    write_gguf(FIM, home / "llama" / "coder.gguf")
    (home / "llama" / "torn-coder.gguf").write_bytes((home / "llama" / "coder.gguf").read_bytes()[:9999])
    more = {"HF_ENDPOINT": hub.url, "HF_HOME": str(home / "models"), "HF_HUB_OFFLINE": "0"}
    more |= {"HOME": str(home), "LLAMA_CACHE": str(home / "llama")}
    can = capable(experimental=None)
    client = await RawClient.start(home / "run", {**PATIENT, "device": "cpu"}, capabilities=can, **more)
    yield User(client, "x = ‸\n")
    status = await client.status()
    assert await client.quit() == 0
    if status["pid"]:
        kill(status["pid"])


async def test_a_user_without_a_model_is_offered_one(user: User) -> None:
    await user.complete()
    (message,) = await until(lambda: user.client.shown)
    better = (await user.client.status())["better"]
    assert f"pick the code action “{DOWNLOADS[better]}”" in message
    assert message.endswith('/llama/coder.gguf"` from llama.cpp, which is already on this machine')
    *_, action = await user.actions((0, 4))
    assert (action["title"], action["command"]["command"]) == (DOWNLOADS[better], "infill-ls.pullModel")
    assert action["command"]["arguments"] == [{"model": better}]


async def test_a_download_that_fails_says_why_and_changes_nothing(user: User, hub: Hub) -> None:
    hub.damaged = "model.safetensors"
    answer = await user.client.command("pullModel", {"model": NAME})
    assert answer["applied"] is False
    assert "model.safetensors is not what the hub promised" in answer["reason"]
    hub.damaged = ""


async def test_a_pulled_model_is_used_at_once_with_its_progress_shown(user: User) -> None:
    answer = await user.client.command("pullModel", {"model": NAME}, token="pull")
    assert answer == {"applied": True, "reason": None}
    assert (user.kinds("pull")[0], user.kinds("pull")[-1]) == ("begin", "end")
    status = await user.client.status()
    assert status["model"] == NAME
    assert "the best of what was pulled" in status["choice"]


async def test_a_pull_by_hand_moves_editors_only_to_a_better_one(hub: Hub, tmp_path: Path) -> None:
    """An editor's `auto` chose the embedded model; it moves to the one that is pulled in a terminal."""
    more = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "models"), "HF_HUB_OFFLINE": "0"}
    client = await RawClient.start(tmp_path / "run", {**PATIENT, "device": "cpu"}, **more)
    await User(client, "x = ‸\n").complete()
    assert (await client.status())["model"] == "embedded"
    pull, given = ("models", "pull", NAME), {**more, "INFILL_LS_DEVICE": "cpu"}
    await asyncio.to_thread(infill_ls, *pull, folder=tmp_path / "run", **given)
    user = User(client, "y = ‸\n")
    async with asyncio.timeout(PATIENCE_S):
        while (status := await client.status())["model"] != NAME or status["state"] != "ready":
            await user.complete()
    await asyncio.to_thread(infill_ls, *pull, folder=tmp_path / "run", **given)
    await User(client, "z = ‸\n").complete()
    assert (await client.status())["pid"] == status["pid"], "no other choice, no other worker"
    assert await client.quit() == 0
    kill(status["pid"])

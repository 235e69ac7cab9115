"""An automatic suggestion ends before the first word that the model doubts; one that was asked for is whole."""

import os
from pathlib import Path

import pytest

from lsp_server.worker.paths import FOLDER_VARIABLE
from tests.e2e.conftest import PATIENT
from tests.e2e.raw_client import RawClient
from tests.e2e.user import User
from tests.inference.models.test_gguf import FIM
from tests.lsp_server.inline.scripted_worker import scripted_client

AT_ONCE = {**PATIENT, "debounceMs": 0}
PATHS = "from pathlib import ‸\n\n\ndef read(path: Path) -> str:\n    return path.read_text()\n"
"""The small model writes `Path, Path, …`, and is sure of the first word alone (.59, then .25)."""
CALL = "x = ‸\ny = 2\n"


async def automatic(user: User) -> list[str]:
    return [user.rest(item) for item in await user.complete(invoked=False)]


async def reason(user: User) -> str:
    line, character = user.place(user.cursor)
    place = {"textDocument": {"uri": user.uri}, "position": {"line": line, "character": character}}
    return str((await user.client.ask("infill/status", place))["noSuggestion"])


async def test_a_real_model_shows_what_it_is_sure_of(runtime_folder: Path) -> None:
    client = await RawClient.start(runtime_folder, {**AT_ONCE, "model": str(FIM), "device": "cpu"})
    user = User(client, PATHS)
    await client.becomes("ready")
    assert await automatic(user) == ["Path"]
    whole = user.rest((await user.complete(invoked=True))[0])
    assert whole.startswith("Path, ")
    user.type("Pa")
    assert await automatic(user) == [whole.removeprefix("Pa")], "what was shown stays whole"
    assert await client.quit() == 0


async def test_the_rest_comes_once_the_start_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted_client(monkeypatch) as (worker, _):
        worker.fills, worker.probs = ["compute(first, second)"], {"second": 0.1}
        client = await RawClient.start(Path(os.environ[FOLDER_VARIABLE]), AT_ONCE)
        user = User(client, CALL)
        (item,) = await user.complete(invoked=False)
        assert item["insertText"] == "compute(first"
        user.type("comp")
        assert await automatic(user) == ["ute(first"]
        assert len(worker.requests) == 1
        worker.fills, worker.probs = ["first, second)"], {}
        user.says("infill/didAccept", id=user.id(item))
        user.type("ute(first")
        assert await automatic(user) == [", second)"]
        assert len(worker.requests) == 2, "it was prefetched"
        assert await client.quit() == 0


@pytest.mark.parametrize(
    ("suggestions", "shown"), [("calm", []), ("balanced", ["compute"]), ("eager", ["compute(first, second)"])]
)
async def test_the_setting_says_how_sure(monkeypatch: pytest.MonkeyPatch, suggestions: str, shown: list[str]) -> None:
    async with scripted_client(monkeypatch) as (worker, _):
        worker.fills, worker.probs = ["compute(first, second)"], {"compute": 0.6, "first": 0.35}
        client = await RawClient.start(Path(os.environ[FOLDER_VARIABLE]), {**AT_ONCE, "suggestions": suggestions})
        user = User(client, CALL)
        assert await automatic(user) == shown
        assert ("not sure enough" in await reason(user)) is (not shown)
        assert [user.rest(item) for item in await user.complete()] == ["compute(first, second)"]
        assert await client.quit() == 0

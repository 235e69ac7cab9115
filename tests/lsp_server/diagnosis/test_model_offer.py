"""An editor's message to a new user about better models, from the server's own handler."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lsp_server.handlers.lifecycle import end_session
from lsp_server.handlers.status import model_offer
from lsp_server.lsp.capabilities import ClientCapabilities
from lsp_server.server import InfillServer
from lsp_server.worker.paths import FOLDER_VARIABLE
from tests.lsp_server.diagnosis.test_doctor import ollama_with_coder, without_other_programs


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which no model was pulled."""
    without_other_programs(tmp_path, monkeypatch)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "run"))
    return tmp_path


async def asked(
    options: Mapping[str, Any] | None = None, flags: Mapping[str, Any] | None = None, folder: Path | None = None
) -> dict[str, Any]:
    """The answer of a server with these start options, flags and workspace folder."""
    session = InfillServer(flags or {}).session
    session.start(ClientCapabilities(), options or {}, [folder.as_uri()] if folder else [])
    try:
        return await model_offer(session, None)
    finally:
        await session.worker.client.shut_down()
        await end_session(session)


async def test_a_model_that_is_set_anywhere_is_known(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "infill-ls.toml").write_text('model = "a/b"\n')
    assert (await asked(folder=home, flags={"trustWorkspace": True}))["model"] == "a/b"
    assert (await asked({"model": "dreamon-7b"}))["model"] == "dreamon-7b"
    assert (await asked(flags={"model": "embedded"}))["model"] == "embedded"
    monkeypatch.setenv("INFILL_LS_MODEL", "open-dcoder-0.5b")
    assert await asked() == {"offer": None, "problem": "", "model": "open-dcoder-0.5b"}


async def test_best_model_is_offered_with_its_commands(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """VS Code sends its default, which is no choice."""
    monkeypatch.setenv("OLLAMA_MODELS", str(ollama_with_coder(home / "ollama")))
    found = await asked({"model": "auto", "device": "cpu"})
    name = found["offer"]["model"]
    assert name in ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")
    assert found["offer"]["steps"] == [["infill-ls", "models", "pull", name]]
    assert found["offer"]["shown"] == [f"infill-ls models pull {name}"]
    assert "licence: Apache-2.0" in found["offer"]["text"]
    assert {"title": "Use coder:1b from Ollama", "model": "coder:1b"} in found["offer"]["use"]


async def test_why_there_is_no_offer_is_told() -> None:
    found = await asked({"device": "abacus"})
    assert found["offer"] is None
    assert "abacus" in found["problem"]

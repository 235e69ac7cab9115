"""An editor's message to a new user about better models, from the server's own handler."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lsp_server.diagnosis.model_offer import MachineLook
from lsp_server.handlers.status import model_offer
from lsp_server.lsp.capabilities import ClientFeatures
from lsp_server.server import InfillServer
from lsp_server.worker import WorkerOptions
from lsp_server.worker.paths import FOLDER_VARIABLE
from tests.lsp_server.diagnosis.test_doctor import ollama_with_coder, without_other_programs


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which no model was pulled, and nothing is remembered."""
    without_other_programs(tmp_path, monkeypatch)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "run"))
    return tmp_path


async def asked(
    options: Mapping[str, Any] | None = None,
    flags: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    **params: Any,
) -> dict[str, Any]:
    """The answer of a server with these start options, flags and workspace folder."""
    session = InfillServer(flags or {}).session
    session.start(ClientFeatures(), options or {}, [folder.as_uri()] if folder else [])
    return await model_offer(session, params)


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


async def test_failed_probe_is_not_repeated_at_each_start(home: Path) -> None:
    broken = {"device": "abacus"}
    first = await asked(broken)
    assert first["offer"] is None
    assert "abacus" in first["problem"]
    (remembered,) = (home / "run").iterdir()
    assert (await asked(broken))["problem"] == "", "it is not looked at again"
    assert "abacus" in (await asked(broken, refresh=True))["problem"], "but it is where the user asks"
    os.utime(remembered, (0, 0))
    assert "abacus" in (await asked(broken))["problem"], "and some days later"


async def test_many_who_ask_at_once_share_one_look() -> None:
    machine, options = MachineLook(), WorkerOptions(device="abacus")
    first, *others = await asyncio.gather(*(machine.look(options, refresh=True) for _ in range(20)))
    assert "abacus" in first.problem
    assert all(other is first for other in others)

"""`infill-ls bench infilling --url`, against a server that answers like vLLM (tests/canvas_server.py)."""

import asyncio
import json
from pathlib import Path

import pytest

from inference.bench import infilling
from inference.engine import Engine
from tests.canvas_server import canvas_server
from tests.inference.remote.asking import EMBEDDED

DATA = Path(__file__).parents[1] / "data" / "tuning.jsonl.gz"


async def test_server_and_engine_fill_the_same_tasks(embedded: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    async with canvas_server(embedded, root=str(EMBEDDED)) as server:
        words = ["--data", str(DATA), "--limit", "2", "--steps", "2", "--url", server.url]
        assert await asyncio.to_thread(infilling.main, words) == 0
    *table, last = capsys.readouterr().out.splitlines()
    found = json.loads(last)
    assert found["tasks"] == 2
    assert list(found["ways"])[:2] == ["server", "here"]
    assert all(0 <= value <= 1 for way in ("server", "here") for value in found["ways"][way]["edit_similarity"])
    assert len(table) == 2 + len(found["ways"])
    assert any(body["vllm_xargs"]["diffusion_pinned"] for body in server.asked[1:])


def test_no_server_is_an_error_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert infilling.main(["--data", str(DATA), "--limit", "1", "--url", "http://127.0.0.1:1"]) == 2
    assert "cannot be reached" in capsys.readouterr().err

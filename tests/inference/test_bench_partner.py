"""`infill-ls bench infilling --partner`, against a server with scripted answers (tests/partner_server.py)."""

import asyncio
import json
from pathlib import Path

import pytest

from inference.bench import infilling, infilling_tasks
from tests.partner_server import partner_server

DATA = Path(__file__).parents[1] / "data" / "tuning.jsonl.gz"
TASK = infilling_tasks.read(DATA, 1)[0]


async def compared(url: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """What the benchmark finds for one task, filled in one step."""
    words = ["--data", str(DATA), "--limit", "1", "--steps", "1", "--partner", url]
    assert await asyncio.to_thread(infilling.main, words) == 0
    *table, last = capsys.readouterr().out.splitlines()
    found = json.loads(last)
    assert list(found["ways"]) == ["diffusion", "partner", "draft and refine"]
    assert len(table) == 2 + len(found["ways"])
    assert found["ways"]["draft and refine"]["p50_ms"] > found["ways"]["diffusion"]["p50_ms"]
    return found  # type: ignore[no-any-return]


async def test_a_partner_that_knows_the_text_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    async with partner_server(answer=lambda _: TASK.parts.solution, kinds=("fim",)) as server:
        found = await compared(server.url, capsys)
    ways = found["ways"]
    assert isinstance(ways, dict)
    assert found["partner_kind"] == "qwen2.5-coder"
    assert ways["partner"]["exact"][0] == ways["draft and refine"]["exact"][0] == 1.0


async def test_a_partner_that_writes_what_does_not_parse_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    async with partner_server(answer=lambda _: "1 2) = ] 3 4 } = 5 6 ) ? 7 8", kinds=("fim",)) as server:
        found = await compared(server.url, capsys)
    ways = found["ways"]
    assert isinstance(ways, dict)
    assert found["partner_taken"] == 0
    assert ways["draft and refine"]["edit_similarity"] == ways["diffusion"]["edit_similarity"]


async def test_a_conversation_is_shown_the_draft(capsys: pytest.CaptureFixture[str]) -> None:
    async with partner_server(answer=lambda _: "pass", kinds=("chat",)) as server:
        found = await compared(server.url, capsys)
        drafts = [asked.draft for asked in server.fills]
    assert found["partner_kind"] == "chat"
    alone, refined = drafts
    assert (alone, bool(refined)) == ("", True)


def test_no_server_is_an_error_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert infilling.main(["--data", str(DATA), "--limit", "1", "--partner", "http://127.0.0.1:1"]) == 2
    assert "cannot be reached" in capsys.readouterr().err

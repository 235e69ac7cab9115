"""The benchmark of passes fills real lines with a small model and times each part."""

import asyncio
from pathlib import Path

import psutil
import pytest

from inference.bench.__main__ import main
from tests.e2e.listening import Listening
from tests.inference.bench.conftest import Measured

DATA = Path(__file__).parents[2] / "data"
WORDS = ("passes", DATA / "tuning.jsonl.gz", "--model", DATA / "fim")


def test_reading_writing_and_passes_are_measured(measured: Measured) -> None:
    found = measured(*WORDS, "--limit", 2)
    assert found["lines"] == 2
    assert all(found["ours"][key] > 0 for key in ("cold_s", "next_key_s", "prompt_tokens_s", "output_tokens_s"))
    assert set(found["pass_ms_by_rows"]) == {"1", "2", "4", "8", "16", "64", "256"}


async def test_a_running_server_is_measured_likewise(runtime_folder: Path, measured: Measured) -> None:
    endpoint = await Listening.start(runtime_folder, "--http", "0", "--model", str(DATA / "fim"), "--device", "cpu")
    try:
        found = await asyncio.to_thread(measured, *WORDS, "--limit", 1, "--url", endpoint.url)
    finally:
        await endpoint.stop()
    [server] = found["peers"]
    assert server["url"] == endpoint.url
    assert all(server[key] > 0 for key in ("cold_s", "next_key_s", "prompt_tokens_s", "cold_ratio"))


def test_rewrites_are_measured_with_their_draft_and_without(measured: Measured) -> None:
    found = measured(*WORDS, "--limit", 1, "--edits", "zeta")
    drafted, plain = found["drafted"], found["plain"]
    assert 0 < drafted["passes"] <= plain["passes"]
    assert drafted["output_tokens"] == plain["output_tokens"] > 0


def test_a_model_with_canvases_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["passes", str(DATA / "tuning.jsonl.gz"), "--model", str(DATA / "masked")]) == 2
    assert "does not fill the middle" in capsys.readouterr().err


def test_a_peer_that_does_not_start_leaves_no_other_running(tmp_path: Path) -> None:
    peer = tmp_path / "peer"
    peer.write_text("#!/bin/sh\nexec sleep 600\n")
    peer.chmod(0o700)
    before = psutil.Process().children()
    assert main([*map(str, WORDS), "--peer", str(peer), "--peer", str(tmp_path / "missing")]) == 2
    assert psutil.Process().children() == before

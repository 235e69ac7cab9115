"""A team on two real vLLM behind a real vllm-router: one of the two dies while twelve people type."""

import asyncio
from pathlib import Path

import pytest

from tests.inference.remote.asking import answered, infiller_at, one_hole
from tests.served.team import STICKY, load, report_of, router, two_replicas

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("team_programs")]
SECONDS = 60


async def test_a_replica_dies_and_everybody_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a CPU a canvas takes longer than the next key, so most of what they ask for is cancelled."""
    async with two_replicas(tmp_path) as replicas, router(replicas, STICKY, tmp_path / "router.log") as url:
        doomed, other = replicas
        async with load(url, SECONDS) as process:
            await doomed.until("num_requests_running", 1)
            doomed.stop()  # SIGKILL, with answers on their way
            before = await asyncio.to_thread(other.metric, "prompt_tokens_total")
            found = await report_of(process)
        assert (found["unanswered"], found["answered_twice"], found["errors"]) == (0, 0, 0), found
        assert found["requests"] > 12 * 10
        assert await asyncio.to_thread(other.metric, "prompt_tokens_total") > before
        async with infiller_at(url, tokenizer=None) as infiller:
            _, candidates, _ = await answered(infiller, one_hole())
        assert candidates[0].texts[0].strip()
    with capsys.disabled():
        print({key: found[key] for key in ("requests", "answered", "empty", "cancelled", "whole_ms", "told")}, end=" ")

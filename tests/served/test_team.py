"""A team on two real vLLM behind a real vllm-router: one of the two dies while twelve people type."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NoReturn

import pytest

from tests.inference.remote.asking import answered, infiller_at, one_hole
from tests.served.team import STICKY, load, report_of, router, two_replicas

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.usefixtures("team_programs"),
    pytest.mark.timeout(1200),
]
SECONDS = 60


async def test_a_replica_dies_and_everybody_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], skip_loudly: Callable[[str], NoReturn]
) -> None:
    """On a CPU a canvas takes longer than the next key, so most of what they ask for is cancelled."""
    async with AsyncExitStack() as stack:
        try:
            doomed, other = await stack.enter_async_context(two_replicas(tmp_path))
        except TimeoutError as error:  # a slow machine is no fault
            skip_loudly(str(error))
        url = await stack.enter_async_context(router((doomed, other), STICKY, tmp_path / "router.log"))
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

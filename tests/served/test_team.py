"""Two real vLLM behind a real vllm-router: one of the two is killed while many wait for its answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from inference.bench.server_process import ModelServerProcess, free_port
from inference.messages import Hole, InfillRequest, Outcome, PinnedText
from tests.inference.loaded import TWIN
from tests.inference.remote.asking import AFTER, BEFORE, answered, infiller_at, request
from tests.not_tested import not_tested
from tests.served.vllm import ENVIRONMENT, START_S, Vllm

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(900)]
ROUTER = ENVIRONMENT / "router" / "bin" / "vllm-router"
REQUESTS = 12


@pytest_asyncio.fixture(loop_scope="session")
async def url_and_doomed(tmp_path: Path) -> AsyncIterator[tuple[str, Vllm]]:
    """A vllm-router that asks two vLLM with the twin in turn, and one of them."""
    for program in (ENVIRONMENT / "bin" / "vllm", ROUTER):
        if not program.exists():
            not_tested(f"no {program}: see what tests/served/install.sh said")
    with ExitStack() as stack:
        replicas = [Vllm(TWIN, tmp_path / f"vllm-{number}.log") for number in (1, 2)]
        for replica in replicas:
            stack.callback(replica.stop)
        await asyncio.gather(*(asyncio.to_thread(replica.wait_until_ready) for replica in replicas))
        words = [str(ROUTER), "--host", "127.0.0.1", "--prometheus-port", str(free_port()), "--policy", "round_robin"]
        words += ["--worker-urls", *(replica.url for replica in replicas)]
        router = ModelServerProcess(words, tmp_path / "router.log", path="/v1/models", start_s=START_S)
        stack.callback(router.stop)
        await asyncio.to_thread(router.wait_until_ready)
        yield router.url, replicas[0]


async def test_nothing_is_lost_when_a_replica_dies(url_and_doomed: tuple[str, Vllm]) -> None:
    url, doomed = url_and_doomed
    async with infiller_at(url, tokenizer=None) as infiller:
        asking = [asyncio.create_task(answered(infiller, _asked(number))) for number in range(REQUESTS)]
        await doomed.until("num_requests_running", 1)
        doomed.stop()  # SIGKILL, with answers on their way
        for _, candidates, done in await asyncio.gather(*asking):
            assert done.outcome is Outcome.COMPLETE
            assert candidates[0].texts[0].strip()
        _, candidates, _ = await answered(infiller, _asked(0))
        assert candidates[0].texts[0].strip()


def _asked(seed: int) -> InfillRequest:
    return request(PinnedText(BEFORE), Hole(single_line=True), PinnedText(AFTER), seed=seed)

"""Two real vLLM behind a real vllm-router: one of the two is killed while many wait for its answers."""

import asyncio
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NoReturn
from urllib.request import urlopen

import pytest

from inference.messages import Hole, InfillRequest, Outcome, Text
from tests.inference.loaded import TWIN
from tests.inference.remote.asking import AFTER, BEFORE, answered, infiller_at, request
from tests.served.vllm import ENVIRONMENT, Vllm

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(900)]
ROUTER = ENVIRONMENT / "router" / "bin" / "vllm-router"
REQUESTS, START_S = 12, 120.0


@asynccontextmanager
async def two_replicas(folder: Path) -> AsyncIterator[tuple[Vllm, Vllm]]:
    """Two vLLM with the twin, which answer."""
    first, second = (Vllm(TWIN, folder / f"vllm-{number}.log") for number in (1, 2))
    try:
        await asyncio.gather(asyncio.to_thread(first.wait), asyncio.to_thread(second.wait))
        yield first, second
    finally:
        first.stop()
        second.stop()


@asynccontextmanager
async def router(replicas: tuple[Vllm, Vllm], log: Path) -> AsyncIterator[str]:
    """The URL of a vllm-router in front of the replicas, which asks them in turn."""
    with socket.socket() as free, socket.socket() as other:
        free.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        port, metrics = free.getsockname()[1], other.getsockname()[1]
    words = [str(ROUTER), "--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(metrics)]
    words += ["--worker-urls", *(replica.url for replica in replicas), "--policy", "round_robin"]
    with log.open("w") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output)
    url = f"http://127.0.0.1:{port}"
    try:
        await asyncio.to_thread(_wait, url, process, log)
        yield url
    finally:
        process.kill()
        process.wait()


def _wait(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    give_up = time.monotonic() + START_S
    while time.monotonic() < give_up and process.poll() is None:
        with suppress(OSError), urlopen(f"{url}/v1/models", timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.5)
    raise TimeoutError(f"vllm-router did not start: {log.read_text(errors='replace')[-2000:]}")


def _asked(seed: int) -> InfillRequest:
    return request(Text(BEFORE), Hole(single_line=True), Text(AFTER), seed=seed)


async def test_nothing_is_lost_when_a_replica_dies(tmp_path: Path, skip_loudly: Callable[[str], NoReturn]) -> None:
    for program in (ENVIRONMENT / "bin" / "vllm", ROUTER):
        if not program.exists():
            skip_loudly(f"no {program}: see what tests/served/install.sh said")
    replicas = two_replicas(tmp_path)
    async with replicas as (doomed, other), router((doomed, other), tmp_path / "router.log") as url:
        await _ask_while_one_dies(url, doomed)


async def _ask_while_one_dies(url: str, doomed: Vllm) -> None:
    async with infiller_at(url, tokenizer=None) as infiller:
        asking = [asyncio.create_task(answered(infiller, _asked(number))) for number in range(REQUESTS)]
        await doomed.until("num_requests_running", 1)
        doomed.stop()  # SIGKILL, with answers on their way
        for _, candidates, done in await asyncio.gather(*asking):
            assert done.outcome is Outcome.COMPLETE
            assert candidates[0].texts[0].strip()
        _, candidates, _ = await answered(infiller, _asked(0))
        assert candidates[0].texts[0].strip()

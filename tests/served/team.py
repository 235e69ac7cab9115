"""Two vLLM behind a vllm-router, and many who type: `python -m tests.served.team` measures what stickiness gives.

Its words are the seconds of typing and the router's policies, if not the usual ones. It prints a line for each, with
vLLM's own count of the prompt tokens that its prefix caches had. Takes ten minutes on two cores.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from inference.models import registry
from tests.served.vllm import ENVIRONMENT, Vllm

ROUTER = Path(os.environ.get("INFILL_TEST_ROUTER", ENVIRONMENT / "router")) / "bin" / "vllm-router"
CLIENTS = 12
STICKY, SPREAD = "consistent_hash", "round_robin"
_START_S = 120.0
_PATIENT = {"INFILL_LS_DEADLINE_MS_AUTOMATIC": "60000", "INFILL_LS_MAX_STEPS": "2"}
"""A canvas takes seconds in triton's interpreter on a CPU."""


@asynccontextmanager
async def two_replicas(folder: Path) -> AsyncIterator[tuple[Vllm, Vllm]]:
    """Two vLLM with the embedded checkpoint, which answer."""
    checkpoint = registry.find("embedded").folder
    first, second = (Vllm(checkpoint, folder / f"vllm-{number}.log") for number in (1, 2))
    try:
        await asyncio.gather(asyncio.to_thread(first.wait), asyncio.to_thread(second.wait))
        yield first, second
    finally:
        first.stop()
        second.stop()


@asynccontextmanager
async def router(replicas: tuple[Vllm, Vllm], policy: str, log: Path) -> AsyncIterator[str]:
    """The URL of a vllm-router in front of the replicas."""
    with socket.socket() as free, socket.socket() as other:
        free.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        port, metrics = free.getsockname()[1], other.getsockname()[1]
    words = [str(ROUTER), "--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(metrics)]
    words += ["--worker-urls", *(replica.url for replica in replicas), "--policy", policy]
    words += ["--health-check-interval-secs", "5"]
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
    give_up = time.monotonic() + _START_S
    while time.monotonic() < give_up and process.poll() is None:
        with suppress(OSError), urlopen(f"{url}/v1/models", timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.5)
    raise TimeoutError(f"vllm-router did not start: {log.read_text(errors='replace')[-2000:]}")


@asynccontextmanager
async def load(url: str, seconds: int, clients: int = CLIENTS) -> AsyncIterator["asyncio.subprocess.Process"]:
    """`infill-ls bench load` against a URL, from the moment at which all are ready to type."""
    words = [sys.executable, "-m", "lsp_server.cli", "bench", "load", "--url", url, "--json"]
    words += ["--clients", str(clients), "--seconds", str(seconds)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=pipe, env=os.environ | _PATIENT)
    try:
        assert process.stderr is not None
        said = b""
        while b"every client is ready" not in said:
            line = await process.stderr.readline()
            if not line:
                raise RuntimeError(f"bench load has ended: {said.decode()[-2000:]}")
            said += line
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def report_of(process: "asyncio.subprocess.Process") -> dict[str, Any]:
    """What it has measured. Raises RuntimeError where it has failed."""
    output, errors = await process.communicate()
    if not output.strip():
        raise RuntimeError(f"bench load has failed: {errors.decode()[-2000:]}")
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def cached(replicas: tuple[Vllm, Vllm]) -> tuple[float, float]:
    """How many prompt tokens were looked for in the prefix caches so far, and how many were found."""
    asked, found = (sum(one.metric(f"prefix_cache_{what}_total") for one in replicas) for what in ("queries", "hits"))
    return asked, found


async def measure(policy: str, seconds: int, folder: Path) -> dict[str, Any]:
    """Two fresh replicas with this policy: the load's report, and the share of prompt tokens that were cached."""
    async with two_replicas(folder) as replicas, router(replicas, policy, folder / f"{policy}.log") as url:
        async with load(url, seconds) as process:
            report = await report_of(process)
        asked, found = cached(replicas)
    kept = {key: report[key] for key in ("requests", "answered", "cancelled", "errors", "unanswered", "answered_twice")}
    hits = round(found / asked, 3) if asked else None
    return {"policy": policy, "prompt_tokens": asked, "cached": hits, **kept, "whole_ms": report["whole_ms"]}


async def main(seconds: str = "100", *policies: str) -> None:
    """Measure each policy, by default both."""
    with tempfile.TemporaryDirectory(prefix="ilt-") as name:
        for policy in policies or (STICKY, SPREAD):
            print(json.dumps(await measure(policy, int(seconds), Path(name))), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

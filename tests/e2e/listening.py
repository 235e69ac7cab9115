"""A running `infill-ls serve` that listens to plugins over HTTP."""

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2

from inference.messages import WorkerOptions
from tests.inference.models.test_gguf import FIM
from tests.workers import CLI, PATIENCE_S, environment, poll

OPTIONS = WorkerOptions(model=str(FIM), device="cpu")
FLAGS = ("--model", str(FIM), "--device", "cpu")
SETTINGS = {"INFILL_LS_DEADLINE_MS_AUTOMATIC": "60000", "INFILL_LS_DEADLINE_MS_INVOKED": "60000"}
"""For a busy machine; editors send their own."""


async def serve(runtime: Path, *flags: str, **variables: str) -> Process:
    own = {**environment(runtime), "XDG_CONFIG_HOME": str(runtime / "config")}
    given = {**own, **(SETTINGS if "--http" in flags else {}), **variables}
    return await asyncio.create_subprocess_exec(*CLI, "serve", *flags, stdout=PIPE, stderr=PIPE, env=given)


class Listening:
    """The process; `url` has no path."""

    def __init__(self, process: Process, url: str) -> None:
        self.process = process
        self.url = url
        self.port = int(url.rpartition(":")[2])

    @classmethod
    async def start(cls, runtime: Path, *flags: str, **variables: str) -> "Listening":
        process = await serve(runtime, *flags, **variables)
        async with asyncio.timeout(PATIENCE_S):
            return cls(process, (await process.stdout.readline()).decode().split()[-1])

    async def stop(self) -> str:
        """Ends it, and returns what it wrote to stderr."""
        self.process.terminate()
        _, errors = await asyncio.wait_for(self.process.communicate(), PATIENCE_S)
        assert self.process.returncode == 0, errors.decode()
        return errors.decode()

    def http(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE_S)


@asynccontextmanager
async def endpoint_with(runtime: Path, *flags: str, **variables: str) -> AsyncIterator[Listening]:
    """An endpoint for plugins. Nothing is written to stderr where other machines may not ask."""
    listening = await Listening.start(runtime, "--http", "0", *flags, **variables)
    yield listening
    assert await listening.stop() == "" or "--allow-remote" in flags


async def loaded(http: httpx2.AsyncClient, **headers: str) -> httpx2.Response:
    """What `/health` says once the model is loaded."""
    return await poll(lambda: http.get("/health", headers=headers), lambda reply: reply.status_code != 503)

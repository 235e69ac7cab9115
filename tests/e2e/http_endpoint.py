"""A running `infill-ls serve --http`, for the tests of the endpoint."""

import asyncio
import sys
from pathlib import Path

import httpx2

from tests.e2e.editor import environment
from tests.workers import PATIENCE_S

SETTINGS = {"INFILL_LS_DEADLINE_MS_AUTOMATIC": "60000", "INFILL_LS_DEADLINE_MS_INVOKED": "60000"}
"""For a busy machine."""


async def loaded(http: httpx2.AsyncClient, **headers: str) -> httpx2.Response:
    """What `/health` says once the model is loaded."""
    async with asyncio.timeout(PATIENCE_S):
        while (reply := await http.get("/health", headers=headers)).status_code == 503:
            await asyncio.sleep(0.1)
        return reply


class HttpEndpoint:
    """The process; `url` has no path."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.process = process
        self.url = url
        self.port = int(url.rpartition(":")[2])

    @classmethod
    async def start(cls, runtime: Path, *flags: str, at: str = "0", **variables: str) -> "HttpEndpoint":
        pipe = asyncio.subprocess.PIPE
        words = [sys.executable, "-m", "lsp_server.cli", "serve", "--http", at, *flags]
        given = {**environment(runtime), **SETTINGS, **variables}
        process = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=pipe, env=given)
        async with asyncio.timeout(PATIENCE_S):
            return cls(process, (await process.stdout.readline()).decode().split()[-1])

    async def stop(self) -> str:
        """Ends it, and returns what it wrote to stderr."""
        self.process.terminate()
        _, errors = await asyncio.wait_for(self.process.communicate(), PATIENCE_S)
        assert self.process.returncode == 0, errors.decode()
        return errors.decode()

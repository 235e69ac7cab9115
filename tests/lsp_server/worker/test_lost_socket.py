"""The socket file of a worker is deleted while it lives: clients find the worker again, or the process and say so."""

import asyncio
import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from lsp_server.worker import WorkerClient, WorkerOptions
from lsp_server.worker.failure import SilentError
from tests.workers import fill, infill_ls, kill

BOUND_S = 30.0
"""Half of what a client waits for a worker that starts; a stopped process is not waited for at all."""


async def loaded(client: WorkerClient) -> int:
    await client.load()
    return client.pid


def forget(folder: Path) -> None:
    for file in (*folder.glob("*.sock"), *folder.glob("*.lock")):
        file.unlink()


async def test_client_rejoins_the_same_worker(own_folder: Path) -> None:
    async with WorkerClient(WorkerOptions(), name="tests") as client:
        pid = await loaded(client)
        forget(own_folder)
        async with WorkerClient(WorkerOptions(), name="tests") as other:
            assert await loaded(other) == pid
        forget(own_folder)
        found = json.loads((await asyncio.to_thread(infill_ls, "status", "--json")).stdout)
        assert [worker["pid"] for worker in found["workers"]] == [pid]
        forget(own_folder)
        stopped = await asyncio.to_thread(infill_ls, "worker", "--stop")
        assert (stopped.returncode, stopped.stdout) == (0, "stopped\n")
    assert infill_ls("status").returncode == 3


@pytest.mark.parametrize("is_lost", [True, False], ids=["its socket is gone", "its socket is there"])
async def test_a_worker_that_does_not_come_back_is_named(own_folder: Path, is_lost: bool) -> None:
    """And told apart from none, by clients and by commands."""
    async with WorkerClient(WorkerOptions(), name="tests") as client:
        pid = await loaded(client)
        os.kill(pid, signal.SIGSTOP)
        if is_lost:
            forget(own_folder)
        try:
            began = time.monotonic()
            async with WorkerClient(WorkerOptions(), name="tests") as other:
                with pytest.raises(SilentError) as failure:
                    await other.ask(fill())
            assert time.monotonic() - began < BOUND_S
            asked = (["status"], ["status", "--json"], ["worker", "--stop"])
            shown, found, stop = await asyncio.gather(*(asyncio.to_thread(infill_ls, *words) for words in asked))
        finally:
            kill(pid)
    gone = f": {re.escape(str(client.paths.socket))} is gone" if is_lost else ""
    said = rf"\(process {pid}\) does not answer{gone}.*kill -CONT {pid}.*kill -9 {pid}"
    assert all(re.search(said, words) for words in (str(failure.value), shown.stdout, stop.stderr))
    assert [silent["pid"] for silent in json.loads(found.stdout)["silent"]] == [pid]
    assert {shown.returncode, found.returncode, stop.returncode} == {1}

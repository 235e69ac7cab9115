"""The engine's thread hangs while the worker lives: waiting clients learn of it, and the worker can be ended."""

import asyncio
import ctypes
import os
import sys

import psutil
import pytest

from lsp_server.worker import WorkerClient, WorkerError, WorkerOptions
from tests.workers import PATIENCE_S, StartWorker, long_fill, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads are stopped with Linux's ptrace")

SEIZE, INTERRUPT, CONTINUE, DETACH = 0x4206, 0x4207, 7, 17
WAIT_FOR_THREADS = 0x40000000
SHORT_S, LONG_S = 3.0, 10.5


class Hang:
    """A thread of another process, stopped until `release`."""

    def __init__(self, thread: int) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        self._thread = thread
        if self._ask(SEIZE) != 0:
            pytest.skip(f"this machine does not allow stopping a thread: {os.strerror(ctypes.get_errno())}")
        self.stop()

    def stop(self) -> None:
        self._ask(INTERRUPT)
        os.waitpid(self._thread, WAIT_FOR_THREADS)

    def go_on(self) -> None:
        self._ask(CONTINUE)

    def release(self) -> None:
        """Let the thread go. One that has ended must be waited for, or its process never ends."""
        if self._ask(DETACH) != 0:
            os.waitpid(self._thread, WAIT_FOR_THREADS)

    def _ask(self, what: int) -> int:
        return int(self._libc.ptrace(what, self._thread, None, None))


async def busy_thread(pid: int) -> int:
    def busy() -> list[int]:
        return [each.id for each in threads() if each.id != pid and each.user_time > before.get(each.id, 0.0) + 0.2]

    threads = psutil.Process(pid).threads
    before = {thread.id: thread.user_time for thread in threads()}
    return (await until(busy))[0]


async def hang_in_a_step(client: WorkerClient, pid: int) -> Hang:
    """Stop the engine in a step, at a point where it does not hold the interpreter: the worker still answers."""
    hang = Hang(await busy_thread(pid))
    async with asyncio.timeout(PATIENCE_S):
        while not (await client.responds_within(0.5) and client.last_status and client.last_status.step_s > 0):
            hang.go_on()
            await asyncio.sleep(0.05)
            hang.stop()
    return hang


async def test_hung_engine_fails_the_fill(start_worker: StartWorker) -> None:
    worker = start_worker()
    (await worker.connect()).close()
    client = WorkerClient(WorkerOptions(), name="tests", paths=worker.paths, hung_step_s=SHORT_S)
    drafted = asyncio.Event()
    filling = asyncio.create_task(client.request(long_fill(), lambda _: drafted.set()))
    async with asyncio.timeout(PATIENCE_S):
        await drafted.wait()
    hang = await hang_in_a_step(client, worker.popen.pid)
    try:
        with pytest.raises(WorkerError, match=r"one step for \d+ s.*infill-ls worker --stop"):
            await filling
        await asyncio.sleep(LONG_S - SHORT_S)
        assert await client.shut_down()
    finally:
        hang.release()
    assert await worker.exit_status() == 0
    await client.close()

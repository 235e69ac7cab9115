"""A live worker that no new client can find ends."""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from inference.messages import Done, Status, WorkerState
from tests.workers import RawClient, StartWorker, fill, is_idle, long_fill


def socket_file(folder: Path) -> None:
    (folder / "w.sock").unlink(missing_ok=True)


def socket_and_lock(folder: Path) -> None:
    socket_file(folder)
    (folder / "w.lock").unlink(missing_ok=True)


def another_file_in_its_place(folder: Path) -> None:
    (folder / "other").write_text("not a socket")
    (folder / "other").rename(folder / "w.sock")


@pytest.mark.parametrize(
    ("transport", "delete"),
    [("unix", socket_file), ("unix", another_file_in_its_place), ("unix", shutil.rmtree), ("tcp", socket_file)],
)
async def test_a_worker_whose_files_are_deleted_ends(
    start_worker: StartWorker, transport: str, delete: Callable[[Path], None]
) -> None:
    worker = start_worker("--idle-s", "600", "--transport", transport)
    client = await worker.connect()
    await client.becomes(is_idle)
    client.send(long_fill("x", max_steps=8, candidates=1))
    await client.first_draft()
    delete(worker.paths.folder)
    assert isinstance(await client.final("x"), Done), "what runs is finished"
    assert await worker.exit_status() == 0


async def test_worker_that_lost_its_place_ends(start_worker: StartWorker) -> None:
    """It is stopped while its lock is deleted and another one starts: there is no moment for it to come back."""
    first = start_worker("--idle-s", "600")
    client = await first.connect()
    first.popen.send_signal(signal.SIGSTOP)
    socket_and_lock(first.paths.folder)
    second = start_worker("--idle-s", "600", folder=first.paths.folder)
    assert (await (await second.connect()).status()).pid == second.popen.pid
    first.popen.send_signal(signal.SIGCONT)
    while not (isinstance(message := await client.receive(), Status) and message.state is WorkerState.STOPPING):
        pass
    assert await first.exit_status() == 0
    other = await RawClient.open(second.paths)
    other.send(fill("x"))
    assert isinstance(await other.final("x"), Done), "the loser left the winner's socket alone"
    assert (await other.status()).pid == second.popen.pid
    assert await start_worker(folder=first.paths.folder).exit_status() == 3

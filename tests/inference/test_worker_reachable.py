"""A live worker whose files are deleted restores them, or yields to another that has taken its place."""

import asyncio
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from inference.messages import Done, Status, WorkerState
from tests.workers import RawClient, StartWorker, fill


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
    [("unix", socket_and_lock), ("unix", another_file_in_its_place), ("unix", shutil.rmtree), ("tcp", socket_file)],
)
async def test_a_worker_whose_files_are_deleted_comes_back(
    start_worker: StartWorker, transport: str, delete: Callable[[Path], None]
) -> None:
    worker = start_worker("--idle-s", "600", "--transport", transport)
    first = await worker.connect()
    delete(worker.paths.folder)
    second = await worker.connect()
    assert (await second.status()).pid == (await first.status()).pid
    assert await start_worker(folder=worker.paths.folder).exit_status() == 3, "the lock is back too"
    first.close()
    second.close()
    worker.popen.send_signal(signal.SIGTERM)
    assert await worker.exit_status() == 0
    assert not worker.paths.socket.exists()


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


async def test_unreachable_worker_says_so_once(start_worker: StartWorker) -> None:
    worker = start_worker("--idle-s", "0.1")
    client = await worker.connect()
    folder = worker.paths.folder
    folder.rename(folder.with_name("elsewhere"))
    folder.write_text("in its place")
    await asyncio.sleep(3)
    client.send(fill("x"))
    assert isinstance(await client.final("x"), Done)
    client.close()
    assert await worker.exit_status() == 0
    assert folder.read_text() == "in its place"
    assert (folder.with_name("elsewhere") / "w.log").read_text().count("cannot be reached") == 1

"""Give up on a worker that hangs, within a bounded time, and get another one where its socket file is deleted.

`test_hung_engine.py` hangs the engine alone.
"""

import asyncio
import json
import os
import re
import signal
from pathlib import Path

import pytest

from inference.messages import ErrorCode, Status
from lsp_server.worker import ClientState, WorkerClient, WorkerError, WorkerOptions
from lsp_server.worker.failure import WorkerUnresponsiveError
from lsp_server.worker.paths import find_worker_pid
from tests.partner_server import PartnerServer, partner_server
from tests.workers import fill, infill_ls, is_alive, kill, until

BOUND_S = 50.0
"""Less than `LOADING_RESPONSE_S`: a stopped process is not waited for so long."""


async def started(client: WorkerClient) -> int:
    """The process of the client's worker, as soon as there is one."""
    return await until(lambda: find_worker_pid(client.paths))


def client_of(server: PartnerServer) -> WorkerClient:
    """Of a worker that loads until the server, which holds its answers, says what it serves."""
    return WorkerClient(WorkerOptions(server.url, partner="chat"), name="tests")


@pytest.mark.parametrize("loads", [False, True], ids=["while it starts", "while it loads"])
async def test_a_worker_stopped_before_it_is_ready_is_reported(own_folder: Path, loads: bool) -> None:
    async with partner_server(holds=True) as server, client_of(server) as client:
        waiting = asyncio.create_task(client.request(fill()) if loads else client.load())
        await until(lambda: not loads or client.state is ClientState.LOADING)
        pid = await started(client)
        os.kill(pid, signal.SIGSTOP)
        try:
            async with asyncio.timeout(BOUND_S):
                with pytest.raises(WorkerUnresponsiveError) as failure:
                    await waiting
        finally:
            kill(pid)
        assert failure.value.pid == pid
        said = rf"The worker \(process {pid}\) does not answer.*kill -CONT {pid}.*kill -9 {pid}.*{client.paths.log}"
        assert re.search(said, str(failure.value))


async def test_a_worker_that_goes_on_while_it_is_asked_is_waited_for(own_folder: Path) -> None:
    seen: list[Status] = []
    async with WorkerClient(WorkerOptions(), name="tests", on_status=seen.append) as client:
        waiting = asyncio.create_task(client.load())
        await until(lambda: seen)
        pid = await started(client)
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(0.3)
        os.kill(pid, signal.SIGCONT)
        await waiting
        assert client.state in (ClientState.READY, ClientState.BUSY)
        assert [status.progress for status in seen] == sorted(status.progress for status in seen)
        await client.load()  # at once, now that the model is there


async def test_worker_that_dies_loading_is_not_restarted(own_folder: Path) -> None:
    async with partner_server(holds=True) as server, client_of(server) as client:
        waiting = asyncio.create_task(client.load())
        await until(lambda: client.state is ClientState.LOADING)
        kill(await started(client))
        with pytest.raises(WorkerError, match="while it loaded"):
            await waiting
        assert client.state is ClientState.FAILED


@pytest.mark.parametrize("model", ["~nosuchuser/x", "./loop", "x" * 5_000, "./a\0b", "a\ud800b"])
async def test_a_model_that_cannot_be_resolved_is_named(
    own_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    async with WorkerClient(WorkerOptions(model), name="tests") as client:
        assert await client.request_status() is None
        with pytest.raises(WorkerError, match="^model: .* cannot be resolved: .*; give a folder") as failure:
            await client.load()
        assert failure.value.code is ErrorCode.MODEL
        assert repr(model)[:100] in str(failure.value)


async def loaded(client: WorkerClient) -> int:
    await client.load()
    return client.pid


def forget(folder: Path) -> None:
    for file in (*folder.glob("*.sock"), *folder.glob("*.lock")):
        file.unlink()


async def test_a_client_gets_another_worker_once_its_files_are_deleted(own_folder: Path) -> None:
    async with WorkerClient(WorkerOptions("embedded"), name="tests") as client:
        pid = await loaded(client)
        forget(own_folder)
        await until(lambda: not is_alive(pid))
        assert (await client.request(fill())).candidates
        async with WorkerClient(WorkerOptions("embedded"), name="tests") as other:
            assert await loaded(other) == client.pid != pid
        await client.shut_down()


async def given_up() -> str:
    """What a client says of the silent worker, in time."""
    async with WorkerClient(WorkerOptions(), name="tests") as client, asyncio.timeout(BOUND_S):
        with pytest.raises(WorkerUnresponsiveError) as failure:
            await client.request(fill())
    return str(failure.value)


@pytest.mark.parametrize("is_lost", [True, False], ids=["its socket is gone", "its socket is there"])
async def test_a_worker_that_does_not_come_back_is_named(own_folder: Path, is_lost: bool) -> None:
    """And told apart from none, by clients and by commands."""
    async with WorkerClient(WorkerOptions(), name="tests") as client:
        pid = await loaded(client)
        os.kill(pid, signal.SIGSTOP)
        if is_lost:
            forget(own_folder)
        try:
            asked = (["status"], ["status", "--json"], ["worker", "--stop"])
            commands = (asyncio.to_thread(infill_ls, *words) for words in asked)
            failure, shown, found, stop = await asyncio.gather(given_up(), *commands)
        finally:
            kill(pid)
    gone = f": {re.escape(str(client.paths.socket))} is gone" if is_lost else ""
    said = rf"\(process {pid}\) does not answer{gone}.*kill -CONT {pid}.*kill -9 {pid}"
    assert all(re.search(said, words) for words in (failure, shown.stdout, stop.stderr))
    assert [silent["pid"] for silent in json.loads(found.stdout)["silent"]] == [pid]
    assert {shown.returncode, found.returncode, stop.returncode} == {1}

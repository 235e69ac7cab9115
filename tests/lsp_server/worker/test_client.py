"""The client: it finds or starts the worker, asks, cancels, and gets over a worker that dies."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from inference.messages import (
    Draft,
    ErrorCode,
    Outcome,
    PinnedText,
    Status,
    Welcome,
    WorkerState,
    encode_frame,
)
from lsp_server.worker import ClientState, WorkerClient, WorkerError, WorkerOptions
from lsp_server.worker.paths import FOLDER_VARIABLE, WorkerPaths, paths_of
from tests.workers import PATIENCE_S, fill, infill_ls, is_alive, kill, long_fill, poll, short_folder, until


async def test_a_fill_comes_back_under_the_callers_id(resident: WorkerPaths) -> None:
    drafts: list[Draft] = []
    async with WorkerClient(WorkerOptions(), name="tests") as client:
        answer = await client.request(fill("mine", drafts=True, candidates=2), drafts.append)
        assert {answer.done.id, *(c.id for c in answer.candidates), *(d.id for d in drafts)} == {"mine"}
        assert answer.done.outcome is Outcome.COMPLETE
        assert answer.candidates
        assert client.state in (ClientState.READY, ClientState.BUSY)
    assert client.state is ClientState.CLOSED


async def test_a_worker_ends_if_unused_and_not_before(own_folder: Path) -> None:
    """As doctor ends the one that it has started."""
    async with WorkerClient(WorkerOptions("embedded"), name="doctor") as doctor:
        await doctor.load()
        async with WorkerClient(WorkerOptions("embedded"), name="tests") as editor:
            await editor.load()
            assert not await doctor.shut_down(if_unused=True)
            assert (await editor.request(fill())).candidates
            assert editor.pid == doctor.pid
        await poll(doctor.request_status, lambda status: status.clients <= 1)
        assert await doctor.shut_down(if_unused=True)


@pytest.mark.parametrize("what", ["folder", "link", "file", "long", "starting is a link", "starting is a folder"])
async def test_an_unusable_runtime_folder_is_named(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    folder = own_folder / ("a" * 300 if what == "long" else "run")
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    options = WorkerOptions("embedded")
    paths = paths_of(options)
    if what == "file":
        folder.write_text("no folder")
    elif what == "link":
        folder.symlink_to("nowhere")
    elif what == "folder":
        folder.mkdir(mode=0o755)
        folder.chmod(0o755)
    elif what != "long":
        folder.mkdir(mode=0o700)
        if what == "starting is a link":
            paths.start_lock.symlink_to("nowhere/at-all")
        else:
            paths.start_lock.mkdir()
    async with WorkerClient(options, name="tests") as client:
        with pytest.raises(WorkerError, match=str(folder)) as failed:
            await client.request(fill())
    assert ("chmod 700" if what == "folder" else "; ") in str(failed.value), "and what to do"
    commands = [("fill", "-"), ("doctor",), ("worker",)]
    commands = [(*command, "--model", "embedded") for command in commands]
    if not what.startswith("starting"):
        commands.append(("status",))
    for command in commands:
        done = await asyncio.to_thread(infill_ls, *command, given="x = ???\n")
        assert str(folder) in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert done.returncode == 1


async def test_where_no_log_can_be_written_fills_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As where the folder for state cannot be written. A crash of the worker is still told."""
    (tmp_path / "state").write_text("no folder")
    with short_folder() as folder:
        monkeypatch.delenv(FOLDER_VARIABLE)
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        options = WorkerOptions()
        assert paths_of(options).log.is_relative_to(tmp_path / "state")
        paths_of(options).folder.mkdir(mode=0o700)
        async with WorkerClient(options, name="tests") as client:
            assert (await client.request(fill())).candidates
            status = client.last_status
        assert status
        kill(status.pid)  # and no worker of the user's, which a survey finds too
        paths_of(options).socket.unlink(missing_ok=True)
        async with WorkerClient(WorkerOptions("embedded", device="nowhere"), name="tests") as client:
            with pytest.raises(WorkerError, match="nowhere"):
                await client.request(fill())


async def test_pipes_and_links_in_place_of_the_logs_are_harmless(own_folder: Path) -> None:
    paths = paths_of(WorkerOptions())
    (own_folder / "precious").write_text("mine")
    paths.log.symlink_to(own_folder / "precious")
    os.mkfifo(paths.stderr_file)
    async with WorkerClient(WorkerOptions(), name="tests") as client:
        assert (await client.request(fill())).candidates
    assert paths.log.is_file() and not paths.log.is_symlink()
    paths.stderr_file.unlink()
    paths.stderr_file.symlink_to(own_folder / "precious")
    async with WorkerClient(WorkerOptions("embedded", device="nowhere"), name="tests") as client:
        with pytest.raises(WorkerError, match="nowhere"):
            await client.request(fill())
    assert (own_folder / "precious").read_text() == "mine"


async def test_a_callback_that_fails_harms_only_its_caller(resident: WorkerPaths) -> None:
    def broken(_: Draft) -> None:
        raise RuntimeError("cannot draw")

    async with WorkerClient(WorkerOptions(), name="tests") as client:
        assert (await client.request(fill(drafts=True), broken)).candidates


@pytest.mark.parametrize("text", ["\ud800", "x" * (65 * 1024 * 1024)], ids=["lone surrogate", "too long"])
async def test_what_cannot_be_sent_fails_alone(resident: WorkerPaths, text: str) -> None:
    async with WorkerClient(WorkerOptions(), name="tests") as client:
        with pytest.raises(WorkerError) as failure:
            await client.request(fill(segments=(PinnedText(text), *fill().segments)))
        assert failure.value.code is ErrorCode.BAD_REQUEST
        assert (await client.request(fill())).candidates


async def test_closing_fails_what_is_pending(resident: WorkerPaths) -> None:
    client = WorkerClient(WorkerOptions(), name="tests")
    began = asyncio.Event()
    task = asyncio.create_task(client.request(long_fill(), lambda _: began.set()))
    await began.wait()
    await client.close()
    for call in (task, client.request(fill())):
        with pytest.raises(WorkerError) as failure:
            await call
        assert failure.value.code is ErrorCode.STOPPED


async def test_racing_starters_share_one_worker(own_folder: Path) -> None:
    """In this process and in others, all at once."""
    code = (
        "import asyncio; from lsp_server.worker import *\n"
        "async def main():\n"
        "    async with WorkerClient(WorkerOptions(), name='racer') as client:\n"
        "        await client.load()\n"
        "        print(client.pid)\n"
        "asyncio.run(main())\n"
    )
    others = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    clients = [WorkerClient(WorkerOptions(), name="tests") for _ in range(3)]
    await asyncio.gather(*(client.load() for client in clients))
    pids = {client.pid for client in clients}
    pids |= {int((await asyncio.to_thread(other.communicate, timeout=PATIENCE_S))[0]) for other in others}
    assert len(pids) == 1
    assert (own_folder / f"{paths_of(WorkerOptions()).log.name}").read_text().count("listening") == 1
    await asyncio.gather(*(client.close() for client in clients))


async def test_killed_worker_fails_pending_and_is_replaced(own_folder: Path) -> None:
    states: list[tuple[ClientState, str]] = []
    async with WorkerClient(WorkerOptions(), name="tests", on_state=lambda *now: states.append(now)) as client:
        began = asyncio.Event()
        task = asyncio.create_task(client.request(long_fill(), lambda _: began.set()))
        await began.wait()
        first = client.last_status
        kill(first.pid)
        with pytest.raises(WorkerError, match="during a request") as failure:
            await task
        assert failure.value.code is ErrorCode.STOPPED
        assert client.state is ClientState.FAILED
        assert "ended" in client.reason

        assert (await client.request(fill())).candidates
        assert client.last_status.pid != first.pid
        assert states[0] == (ClientState.STARTING, "")
        assert await client.shut_down()
        await until(lambda: not is_alive(client.last_status.pid))
        assert client.state is ClientState.STOPPED, "a worker that was told to end has not failed"


async def test_failed_load_is_not_retried_at_once(own_folder: Path) -> None:
    seen: list[Status] = []
    async with WorkerClient(WorkerOptions("./no-such-model"), name="tests", on_status=seen.append) as client:

        async def refused() -> str:
            with pytest.raises(WorkerError, match="no-such-model") as failure:
                await client.request(fill())
            assert failure.value.code is ErrorCode.MODEL
            return str(failure.value)

        assert str(client.paths.log) in await poll(refused, lambda said: "next try in" in said)
    assert WorkerState.FAILED in {status.state for status in seen}
    assert len({status.pid for status in seen}) <= 2, "a busy machine may have missed the first pause, of 2 s"


async def test_a_process_that_cannot_start_is_explained(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFILL_LS_TRANSPORT", "pigeon")
    async with WorkerClient(WorkerOptions(), name="tests") as client:
        with pytest.raises(WorkerError, match="pigeon"):
            await client.request(fill())
        assert client.state in (ClientState.FAILED, ClientState.BACKING_OFF)
        assert "pigeon" in client.reason


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
async def test_a_device_no_command_can_name_is_explained(own_folder: Path, name: str) -> None:
    async with WorkerClient(WorkerOptions(device=name), name="tests") as client:
        with pytest.raises(WorkerError, match="The worker could not be started: "):
            await client.request(fill())


async def test_foreign_listener_is_replaced(own_folder: Path) -> None:
    async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.org ESMTP\r\n")
        writer.close()

    impostor = await asyncio.start_unix_server(babble, paths_of(WorkerOptions()).socket)
    async with WorkerClient(WorkerOptions(), name="tests") as client:
        await client.load()
        assert client.last_status.model in ("auto", "embedded")
    impostor.close()


@pytest.mark.parametrize("words", [encode_frame(Welcome(protocol=99)), b"\0\0\0\4junk"])
async def test_worker_of_another_release_is_named_at_once(own_folder: Path, words: bytes) -> None:
    """It holds the lock, so it cannot be replaced."""

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words)

    paths = paths_of(WorkerOptions())
    lock = FileLock(paths.socket.with_suffix(".lock"))
    lock.acquire()
    listening = await asyncio.start_unix_server(greet, paths.socket)
    async with listening, WorkerClient(WorkerOptions(), name="tests") as client:
        with pytest.raises(WorkerError, match="does not answer as a worker of this release; end it"):
            await client.request(fill())
    lock.release()

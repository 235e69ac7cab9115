"""Real workers for tests: one for the whole run, in a runtime folder of its own, and a client that speaks raw bytes."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from inference import messages
from inference.messages import Done, Draft, Failed, Hole, InfillRequest, PinnedText, Status
from lsp_server.diagnosis.workers import survey_workers
from lsp_server.worker import WorkerClient, WorkerOptions
from lsp_server.worker.connect import WorkerLink, attach_to_running
from lsp_server.worker.paths import FOLDER_VARIABLE, WorkerPaths

Found = TypeVar("Found")
Finished = subprocess.CompletedProcess[str]
CLI = [sys.executable, "-m", "lsp_server.cli"]

USERS_HF_HOME = os.environ.get("HF_HOME")
"""Where the user's models are, for tests of a real one; None: where the hub's client puts them."""

PATIENCE_S = 120.0
"""How long anything may take. Only a test that fails waits so long; a busy machine or a slow one needs much of it."""

ATTEMPTS = 25
"""How often a small model is asked again, where a test needs an answer and any will do: it often finds nothing."""


@pytest.fixture(scope="session", autouse=True)
def runtime_folder() -> Iterator[Path]:
    """The folder of this run's sockets and logs. Short, for paths of sockets are; its workers are killed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="ils-", dir="/tmp"))
    before = os.environ.get(FOLDER_VARIABLE)
    os.environ[FOLDER_VARIABLE] = str(folder)
    os.environ["HF_HOME"] = str(folder / "models")  # nothing is pulled there, so `auto` is the embedded model
    yield folder
    for worker in asyncio.run(survey_workers("tests")).running:
        kill(worker.status.pid)
    if before is None:
        del os.environ[FOLDER_VARIABLE]
    os.environ.pop("HF_HOME", None)
    if USERS_HF_HOME is not None:
        os.environ["HF_HOME"] = USERS_HF_HOME
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def resident(runtime_folder: Path) -> WorkerPaths:
    """The worker that most tests share: the embedded checkpoint, loaded."""

    async def start() -> WorkerPaths:
        async with WorkerClient(WorkerOptions(), name="tests") as client:
            await client.request(fill(max_steps=1))
            return client.paths

    return asyncio.run(start())


def environment(runtime: Path) -> dict[str, str]:
    """Keeps a server and its worker away from the user's own."""
    return {**os.environ, FOLDER_VARIABLE: str(runtime)}


def infill_ls(*words: object, folder: Path | None = None, given: str | None = None, **variables: str) -> Finished:
    """A command as a user runs it, with `given` as its input; `folder` is a runtime folder of the test's own."""
    kept = {**(environment(folder) if folder else os.environ), **variables}
    pipes = {"input": given, "capture_output": True, "encoding": "utf-8", "errors": "surrogateescape"}
    return subprocess.run([*CLI, *map(str, words)], **pipes, env=kept, timeout=PATIENCE_S, check=False)


def checks_of(found: Finished) -> dict[str, Any]:
    """What `infill-ls doctor --json` has found, by name."""
    return {check["name"]: check for check in json.loads(found.stdout)["checks"]}


def short_folder() -> "tempfile.TemporaryDirectory[str]":
    """A folder for sockets and state. A process that is ending may still write into it while it is deleted."""
    return tempfile.TemporaryDirectory(prefix="ils-", dir="/tmp", ignore_cleanup_errors=True)


def fill(request_id: str = "r", *, max_steps: int = 2, **other: object) -> InfillRequest:
    """A request that is quickly done."""
    segments = (PinnedText("def add(a, b):\n    return "), Hole(max_tokens=4), PinnedText("\n"))
    return InfillRequest(request_id, **{"segments": segments, "max_steps": max_steps, **other})


def long_fill(request_id: str = "long", **other: object) -> InfillRequest:
    """A request that takes minutes unless it is cancelled, and tells of each step."""
    segments = (PinnedText("def f(x):\n"), Hole(min_tokens=80, max_tokens=80), PinnedText("\n    return x\n"))
    more = {"segments": segments, "max_steps": messages.MAX_STEPS, "candidates": 8, "drafts": True}
    return InfillRequest(request_id, **{**more, **other})


@dataclass
class RawClient:
    """A connection without manners: it sends what it is given."""

    stream: WorkerLink

    @classmethod
    async def open(cls, paths: WorkerPaths, *, greet: bool = True) -> "RawClient":
        """Connect, and shake hands unless told otherwise."""
        if greet:
            return cls(await attach_to_running(paths, "tests"))
        if paths.socket.is_socket():
            return cls(WorkerLink(*await asyncio.open_unix_connection(paths.socket)))
        port = json.loads(paths.socket.read_bytes())["port"]
        return cls(WorkerLink(*await asyncio.open_connection("127.0.0.1", port)))

    def send(self, *several: messages.ClientMessage) -> None:
        for message in several:
            self.stream.send(message)

    def send_bytes(self, raw: bytes) -> None:
        self.stream.writer.write(raw)

    async def receive(self) -> messages.WorkerMessage:
        async with asyncio.timeout(PATIENCE_S):
            return await self.stream.receive()

    async def answer(self) -> messages.WorkerMessage:
        """The next message that is no status."""
        while isinstance(message := await self.receive(), Status):
            pass
        return message

    async def final(self, request_id: str) -> Done | Failed:
        """The final reply to a request; what comes before it is dropped."""
        while not (isinstance(message := await self.receive(), Done | Failed) and message.id == request_id):
            pass
        return message

    async def first_draft(self) -> Draft:
        """The next draft: a request is in the middle of its work."""
        while not isinstance(message := await self.receive(), Draft):
            pass
        return message

    async def status(self) -> Status:
        self.send(messages.StatusRequest())
        while not isinstance(message := await self.receive(), Status):
            pass
        return message

    async def becomes(self, wanted: Callable[[Status], bool]) -> Status:
        return await poll(self.status, wanted)

    async def is_closed(self) -> bool:
        """Whether the worker has closed the connection; waits for that."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self.stream.reader.read(1) == b""
            except ConnectionError:
                return True

    def close(self) -> None:
        self.stream.close()


async def until(found: Callable[[], Found]) -> Found:
    """What is found, once it is something."""
    async with asyncio.timeout(PATIENCE_S):
        while not (value := found()):
            await asyncio.sleep(0.01)
    return value


async def poll(ask: Callable[[], Awaitable[Found]], wanted: Callable[[Found], object]) -> Found:
    """What is answered, once it is as wanted."""
    async with asyncio.timeout(PATIENCE_S):
        while not wanted(answer := await ask()):
            await asyncio.sleep(0.02)
    return answer


def is_idle(status: Status) -> bool:
    return status.state is messages.WorkerState.READY and status.running == status.waiting == 0


StartWorker = Callable[..., "Process"]


class Process:
    """A worker of one test's own, at `folder`/w.sock, with its stderr in `stderr`."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        module: str = "inference.worker",
        python: str | Path = sys.executable,
        **environment: str,
    ) -> None:
        self.paths = WorkerPaths(folder / "w.sock", folder / "w.log")
        words = [python, "-P", "-m", module, "--socket", str(self.paths.socket), *arguments]
        with (folder.parent / f"{folder.name}.err").open("w") as errors:
            self.popen = subprocess.Popen(words, stderr=errors, env={**os.environ, **environment})
        self._errors = Path(errors.name)

    @property
    def stderr(self) -> str:
        return self._errors.read_text()

    async def connect(self) -> RawClient:
        """A client of this worker, as soon as it listens."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with suppress(Exception):
                    return await RawClient.open(self.paths)
                assert self.popen.poll() is None, f"the worker has ended: {self.stderr}"
                await asyncio.sleep(0.02)

    async def exit_status(self) -> int:
        await until(lambda: self.popen.poll() is not None)
        return self.popen.returncode


@pytest.fixture
def start_worker() -> Iterator[Callable[..., Process]]:
    """Starts workers in a new private folder, or in the one given; they are killed after the test."""
    started: list[Process] = []
    parent = Path(tempfile.mkdtemp(prefix="ils-", dir="/tmp"))

    def start(*arguments: str, folder: Path | None = None, **environment: str) -> Process:
        if folder is None:
            folder = parent / str(len(started))
            folder.mkdir(mode=0o700)
        started.append(Process(folder, *arguments, **environment))
        return started[-1]

    yield start
    for process in started:
        process.popen.kill()
        process.popen.wait()
    shutil.rmtree(parent, ignore_errors=True)


def kill(pid: int) -> None:
    """SIGKILL, and wait until the process is gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    give_up = time.monotonic() + PATIENCE_S
    while is_alive(pid) and time.monotonic() < give_up:
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter where it ended between opening and reading
        return False

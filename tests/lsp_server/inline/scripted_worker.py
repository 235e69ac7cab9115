"""A scripted worker at the socket where the client looks for one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from inference.messages import (
    LENGTH_BYTES,
    Amend,
    Candidate,
    ClientMessage,
    Done,
    ErrorCode,
    Failed,
    Hello,
    InfillRequest,
    Outcome,
    Status,
    StatusRequest,
    Welcome,
    WorkerMessage,
    WorkerState,
    decode_client_message,
    frame,
)
from lsp_server.worker import WorkerClient, WorkerOptions
from lsp_server.worker.paths import FOLDER_VARIABLE, paths_of
from tests.workers import short_folder

PATIENCE_S = 10.0


class ScriptedWorker:
    """Answers each request with `fills`, best first; with None it answers when it is told to."""

    def __init__(self) -> None:
        self.fills: list[str] | None = None
        self.confidence = 1.0
        self.requests: list[InfillRequest] = []
        self.amendments: list[str] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        while length := await reader.read(LENGTH_BYTES):
            self._take(decode_client_message(await reader.readexactly(int.from_bytes(length, "big"))))
        writer.close()

    def answer(self, *fills: str) -> None:
        key = self.requests[-1].id
        self._send(*(Candidate(key, (fill,), confidence=self.confidence) for fill in fills), Done(key))

    def answer_cut(self, *fills: str) -> None:
        """Answer the latest request at its deadline, with texts that are not whole."""
        key = self.requests[-1].id
        self._send(*(Candidate(key, (fill,), complete=False) for fill in fills), Done(key, Outcome.DEADLINE))

    def refuse(self, code: ErrorCode, message: str) -> None:
        self._send(Failed(self.requests[-1].id, code, message))

    def stop(self) -> None:
        """End the latest request, as for one that matters more."""
        self._send(Done(self.requests[-1].id, Outcome.CANCELLED))

    async def until(self, happened: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not happened():
                await asyncio.sleep(0.005)

    def _take(self, message: ClientMessage) -> None:
        match message:
            case Hello():
                self._send(Welcome(), Status(WorkerState.READY))
            case StatusRequest():
                self._send(Status(WorkerState.READY))
            case InfillRequest():
                self.requests.append(message)
                if self.fills is not None:
                    self.answer(*self.fills)
            case Amend(text=text):
                self.amendments.append(text)
            case _:
                pass

    def _send(self, *messages: WorkerMessage) -> None:
        for message in messages:
            self._writers[-1].write(frame(message))


@asynccontextmanager
async def scripted_worker(options: WorkerOptions | None = None) -> AsyncIterator[ScriptedWorker]:
    """A worker that listens where the one of these options does; the runtime folder must be the test's own."""
    worker, socket = ScriptedWorker(), Path(paths_of(options or WorkerOptions()).socket)
    server = await asyncio.start_unix_server(worker.serve, socket)
    try:
        yield worker
    finally:
        server.close()


@asynccontextmanager
async def scripted_client(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[ScriptedWorker, WorkerClient]]:
    """Such a worker in a folder of its own, and a client of it."""
    with short_folder() as folder:
        monkeypatch.setenv(FOLDER_VARIABLE, folder)
        async with scripted_worker() as worker, WorkerClient(WorkerOptions(), name="tests") as client:
            yield worker, client

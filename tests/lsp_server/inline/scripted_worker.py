"""A scripted worker at the socket where the client looks for one."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from inference import messages
from inference.messages import (
    Done,
    Draft,
    Failed,
    FilledHoles,
    Hello,
    InfillRequest,
    Outcome,
    Status,
    StatusRequest,
    Welcome,
)
from lsp_server.worker import WorkerClient, WorkerOptions
from lsp_server.worker.paths import FOLDER_VARIABLE, paths_of
from tests.workers import short_folder


class ScriptedWorker:
    """Answers each request with `fills`, best first; with None it answers when it is told to."""

    def __init__(self) -> None:
        self.fills: list[str] | None = None
        self.probs: dict[str, float] = {}
        """Those of the words of its answers that it is not sure of."""
        self.requests: list[InfillRequest] = []
        self.cancelled: list[str] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        while length := await reader.read(messages.LENGTH_BYTES):
            self._take(messages.decode_client_message(await reader.readexactly(int.from_bytes(length, "big"))))
        writer.close()

    def answer(self, *fills: str) -> None:
        key = self.requests[-1].id
        pieces = [tuple(re.findall(r"\w+|\W", fill)) for fill in fills]
        probs = [tuple(self.probs.get(word, 1.0) for word in words) for words in pieces]
        answers = zip(fills, pieces, probs, strict=True)
        self._send(
            *(FilledHoles(key, (fill,), pieces=(words,), confidences=(p,)) for fill, words, p in answers), Done(key)
        )

    def draft(self, text: str) -> None:
        """Show what the answer to the latest request is so far."""
        self._send(Draft(self.requests[-1].id, 1, 2, ((text,),), ((0.5,),)))

    def answer_without_texts(self) -> None:
        """Answer the latest request as no worker of ours does: our side fails on it."""
        key = self.requests[-1].id
        self._send(FilledHoles(key, ()), Done(key))

    def answer_cut(self, *fills: str) -> None:
        """Answer the latest request at its deadline, with texts that are not whole."""
        key = self.requests[-1].id
        self._send(*(FilledHoles(key, (fill,), complete=False) for fill in fills), Done(key, Outcome.DEADLINE))

    def refuse(self, code: messages.ErrorCode, message: str) -> None:
        self._send(Failed(self.requests[-1].id, code, message))

    def _take(self, message: messages.ClientMessage) -> None:
        match message:
            case Hello():
                self._send(Welcome(), Status(messages.WorkerState.READY))
            case StatusRequest():
                self._send(Status(messages.WorkerState.READY))
            case InfillRequest():
                self.requests.append(message)
                if self.fills is not None:
                    self.answer(*self.fills)
            case messages.Cancel(id=request_id):
                self.cancelled.append(request_id)
            case _:
                pass

    def _send(self, *several: messages.WorkerMessage) -> None:
        for message in several:
            self._writers[-1].write(messages.encode_frame(message))


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
async def scripted_client(
    monkeypatch: pytest.MonkeyPatch, options: WorkerOptions | None = None
) -> AsyncIterator[tuple[ScriptedWorker, WorkerClient]]:
    """Such a worker in a folder of its own, and a client of it."""
    with short_folder() as folder:
        monkeypatch.setenv(FOLDER_VARIABLE, folder)
        client = WorkerClient(options or WorkerOptions(), name="tests")
        async with scripted_worker(options) as worker, client:
            yield worker, client

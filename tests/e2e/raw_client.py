"""A raw byte client, for messages that a proper one would never send, and to count the replies to each request.

It talks to its own process over stdio.
"""

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Self

from lsp_server.lsp.worker_supervisor import REFRESH_S
from tests.workers import CLI, PATIENCE_S, environment, poll

SERVER = [*CLI, "serve", "--stdio"]
AS_PLUGIN = {"experimental": {"infillDrafts": False}}
"""Capabilities of a plugin of ours, which offers a model by itself."""
CAN: dict[str, Any] = {
    "window": {"workDoneProgress": True},
    "workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}},
    "textDocument": {
        "inlineCompletion": {},
        "codeAction": {
            "dataSupport": True,
            "resolveSupport": {"properties": ["edit"]},
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["refactor"]}},
        },
    },
}
"""What VS Code and Neovim can do, as far as it matters here."""
Place = tuple[int, int]
EVERYWHERE: tuple[Place, Place] = ((0, 0), (2**31 - 1, 0))


def capable(**values: object) -> dict[str, Any]:
    """Such capabilities with other `values` at their paths, in which `__` stands for the dot."""
    can = deepcopy(CAN)
    for path, value in values.items():
        *folders, name = path.split("__")
        at = can
        for folder in folders:
            at = at.setdefault(folder, {})
        at[name] = value
    return can


class Refused(Exception):
    """The error that a request was answered with."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Framed:
    """Frames over stdio. `receive` gives None when there will be no more message."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, body: bytes) -> None:
        self.writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    async def receive(self) -> bytes | None:
        try:
            header = await self.reader.readuntil(b"\r\n\r\n")
            return await self.reader.readexactly(int(header.partition(b":")[2]))
        except (EOFError, OSError):
            return None


def between(first: Place, last: Place | None = None) -> dict[str, dict[str, int]]:
    """A range; an empty one without a `last` place."""
    start, end = ({"line": line, "character": character} for line, character in (first, last or first))
    return {"start": start, "end": end}


class RawClient:
    """A client of one server. `replies` keeps every reply, `counts` how many there were to each id.

    `sent` and `arrived` are when, by the monotonic clock, each request was sent and its last reply came. `answers` says
    how the server's own requests are answered, by their params. `process` is the server where it is this client's own,
    `runtime` its runtime folder.
    """

    process: asyncio.subprocess.Process
    runtime: Path
    encoding = "utf-16"

    def __init__(self, channel: Framed) -> None:
        self.channel = channel
        self.replies: dict[Any, dict[str, Any]] = {}
        self.counts: Counter[Any] = Counter()
        self.sent: dict[Any, float] = {}
        self.arrived: dict[Any, float] = {}
        self.notes: list[dict[str, Any]] = []
        self.can: dict[str, Any] = {}
        self.answers: dict[str, Callable[[Any], Any]] = {
            "window/workDoneProgress/create": lambda _: None,
            "client/registerCapability": lambda _: None,
        }
        self._news = asyncio.Condition()
        self._out: asyncio.Queue[bytes] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())
        self._writing = asyncio.create_task(self._write())

    @classmethod
    async def start(
        cls,
        runtime: Path,
        options: object = None,
        *flags: str,
        initialize: bool = True,
        capabilities: Mapping[str, object] = CAN,
        folders: Sequence[Path] = (),
        command: Sequence[str] = SERVER,
        **variables: str,
    ) -> Self:
        """A new server process; its log goes to this process' stderr. `variables` are more of its environment."""
        pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE, "limit": 2**26}
        given = {**environment(runtime), **variables}
        process = await asyncio.create_subprocess_exec(*command, *flags, env=given, **pipes)
        client = cls(Framed(process.stdout, process.stdin))
        client.process, client.runtime = process, runtime
        if initialize:
            await client.initialize(options, capabilities, folders)
        return client

    async def initialize(
        self, options: object, capabilities: Mapping[str, object] = CAN, folders: Sequence[Path] = ()
    ) -> None:
        params = {"capabilities": {**AS_PLUGIN, **capabilities}, "initializationOptions": options}
        if folders:
            params["workspaceFolders"] = [{"uri": folder.as_uri(), "name": folder.name} for folder in folders]
        self.request("initialize", "initialize", params)
        self.can = (await self.reply("initialize"))["result"]["capabilities"]
        self.encoding = self.can["positionEncoding"]
        self.send({"method": "initialized", "params": {}})

    def send(self, message: Any) -> None:
        self.send_bytes(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def send_bytes(self, body: bytes) -> None:
        self._out.put_nowait(body)

    def request(self, key: Any, method: str, params: Any = None) -> None:
        self.sent[key] = time.monotonic()
        self.send({"id": key, "method": method, "params": params})

    def open(self, uri: str, text: str, language: str = "python") -> None:
        item = {"uri": uri, "languageId": language, "version": 1, "text": text}
        self.send({"method": "textDocument/didOpen", "params": {"textDocument": item}})

    def complete(self, key: Any, uri: str, line: int, character: int, *, invoked: bool = False) -> None:
        position = {"line": line, "character": character}
        context = {"triggerKind": 1 if invoked else 2}
        params = {"textDocument": {"uri": uri}, "position": position, "context": context}
        self.request(key, "textDocument/inlineCompletion", params)

    async def ask(self, method: str, params: Any) -> Any:
        """The result. Raises Refused."""
        key = f"{method} at {time.monotonic_ns()}"
        self.request(key, method, params)
        reply = await self.reply(key)
        if "error" in reply:
            raise Refused(reply["error"]["code"], reply["error"]["message"])
        return reply["result"]

    async def actions(
        self, uri: str, first: Place, last: Place | None = None, only: str | Sequence[str] | None = None, **more: object
    ) -> list[dict[str, Any]]:
        """The code actions that are offered there; `more` of the request's context."""
        context = {"diagnostics": [], **more}
        if only is not None:
            context["only"] = [only] if isinstance(only, str) else only
        params = {"textDocument": {"uri": uri}, "range": between(first, last), "context": context}
        return await self.ask("textDocument/codeAction", params) or []

    async def command(self, name: str, *arguments: Any, token: str | None = None) -> Any:
        params = {"command": f"infill-ls.{name}", "arguments": arguments}
        return await self.ask("workspace/executeCommand", {**params, **({"workDoneToken": token} if token else {})})

    @property
    def shown(self) -> list[str]:
        return [note["message"] for note in self.told("window/showMessage")]

    def told(self, method: str, since: int = 0) -> list[Any]:
        """The params of what came under a name, behind the first `since` notes."""
        return [note["params"] for note in self.notes[since:] if note["method"] == method]

    def cancel(self, key: Any) -> None:
        self.send({"method": "$/cancelRequest", "params": {"id": key}})

    async def reply(self, key: Any) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(lambda: key in self.replies)
        return self.replies[key]

    async def status(self, uri: str | None = None) -> dict[str, Any]:
        return await self.ask("infill/status", {"textDocument": {"uri": uri}} if uri else None)

    async def becomes(self, state: str) -> None:
        await poll(self.status, lambda status: status["state"] == state)

    async def idle(self) -> dict[str, Any]:
        """The status once the worker has nothing left to do."""
        busy = ("running", "waiting", "computing")
        return await poll(self.status, lambda status: not any(status[name] for name in busy))

    @asynccontextmanager
    async def holding_the_worker(self) -> AsyncIterator[int]:
        """The worker stands still inside the block: however fast the model is, it has answered nothing by its end.

        Yields its process id.
        """
        await self.becomes("ready")
        pid = (await self.status())["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield pid
        finally:
            os.kill(pid, signal.SIGCONT)

    async def has_handed_on(self) -> None:
        """Once what was asked for is with the worker, which is held: the server has waited for it in vain meanwhile."""

        async def waited_s() -> float:
            began = time.monotonic()
            await self.status()
            return time.monotonic() - began

        await poll(waited_s, lambda waited: waited >= REFRESH_S)  # at once came what the worker had said before

    async def quit(self, *, shutdown: bool = True) -> int:
        """Shut down if asked to, exit, and the exit status. Every request has had one answer by then."""
        if shutdown:
            self.request("shutdown", "shutdown")
            await self.reply("shutdown")
            assert {self.counts[key] for key in self.sent} == {1}
        self.send({"method": "exit"})
        return await self.ended()

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE_S):
            status = await self.process.wait()
            await self._reading
        return status

    async def _read(self) -> None:
        while (body := await self.channel.receive()) is not None:
            await self._take(json.loads(body))
        self._writing.cancel()

    async def _write(self) -> None:
        while True:
            await self.channel.send(await self._out.get())

    async def _take(self, message: dict[str, Any]) -> None:
        async with self._news:
            if "method" in message:
                self.notes.append(message)
                if "id" in message and (answer := self.answers.get(message["method"])):
                    self.send({"id": message["id"], "result": answer(message["params"])})
            else:
                self.replies[message["id"]] = message
                self.counts[message["id"]] += 1
                self.arrived[message["id"]] = time.monotonic()
            self._news.notify_all()

"""A client that speaks frames, for what a proper one would never send, and to count the replies to each request."""

import asyncio
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.e2e.editor import SERVER, environment

PATIENCE_S = 60.0


class RawClient:
    """One server process. `replies` keeps every reply, `counts` how many there were to each id."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.replies: dict[Any, dict[str, Any]] = {}
        self.counts: Counter[Any] = Counter()
        self.notes: list[dict[str, Any]] = []
        self._news = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, runtime: Path, options: object = None, *, initialize: bool = True) -> "RawClient":
        """A new server process; its log goes to this process' stderr."""
        process = await asyncio.create_subprocess_exec(
            *SERVER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=environment(runtime)
        )
        client = cls(process)
        if initialize:
            client.request("initialize", "initialize", {"capabilities": {}, "initializationOptions": options})
            await client.reply("initialize")
            client.send({"method": "initialized", "params": {}})
        return client

    def send(self, message: Any) -> None:
        """Send one message, `jsonrpc` added."""
        self.send_bytes(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def send_bytes(self, body: bytes) -> None:
        """Send one frame."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def request(self, key: Any, method: str, params: Any = None) -> None:
        """Send a request."""
        self.send({"id": key, "method": method, "params": params})

    def open(self, uri: str, text: str, language: str = "python") -> None:
        """Open a document."""
        item = {"uri": uri, "languageId": language, "version": 1, "text": text}
        self.send({"method": "textDocument/didOpen", "params": {"textDocument": item}})

    def complete(self, key: Any, uri: str, line: int, character: int, *, invoked: bool = False) -> None:
        """Ask for inline completions."""
        position = {"line": line, "character": character}
        context = {"triggerKind": 1 if invoked else 2}
        params = {"textDocument": {"uri": uri}, "position": position, "context": context}
        self.request(key, "textDocument/inlineCompletion", params)

    def cancel(self, key: Any) -> None:
        """Cancel a request."""
        self.send({"method": "$/cancelRequest", "params": {"id": key}})

    async def reply(self, key: Any) -> dict[str, Any]:
        """The reply to a request."""
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(lambda: key in self.replies)
        return self.replies[key]

    async def status(self) -> dict[str, Any]:
        """The answer to `infill/status`."""
        key = f"status at {time.monotonic_ns()}"
        self.request(key, "infill/status")
        result: dict[str, Any] = (await self.reply(key))["result"]
        return result

    async def becomes(self, state: str) -> None:
        """Wait until the server says that it is in `state`."""
        async with asyncio.timeout(PATIENCE_S):
            while (await self.status())["state"] != state:
                await asyncio.sleep(0.05)

    async def is_at_work(self, requests: int = 1) -> None:
        """Wait until the worker has `requests` of ours in hand: what comes next meets them running."""
        async with asyncio.timeout(PATIENCE_S):
            status = await self.status()
            while (status["running"] or 0) + (status["waiting"] or 0) < requests:
                await asyncio.sleep(0.005)
                status = await self.status()

    async def quit(self, *, shutdown: bool = True) -> int:
        """Shut down if asked to, exit, and the exit status."""
        if shutdown:
            self.request("shutdown", "shutdown")
            await self.reply("shutdown")
        self.send({"method": "exit"})
        return await self.ended()

    async def ended(self, within_s: float = 20.0) -> int:
        """The exit status, once the process has ended."""
        async with asyncio.timeout(within_s):
            status = await self.process.wait()
            await self._reading
        return status

    async def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while header := await stream.readline():
            length = int(header.partition(b":")[2])
            await stream.readexactly(2)
            await self._take(json.loads(await stream.readexactly(length)))

    async def _take(self, message: dict[str, Any]) -> None:
        async with self._news:
            if "method" in message:
                self.notes.append(message)
            else:
                self.replies[message["id"]] = message
                self.counts[message["id"]] += 1
            self._news.notify_all()

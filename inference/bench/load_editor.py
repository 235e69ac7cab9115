"""An editor of one document for `infill-ls bench load`: LSP over TCP, and the fate of each request.

Knows the protocol's messages as JSON, and nothing of the server's code. The text is ASCII.
"""

import asyncio
import json
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

_CANCELLED = -32800
_CAPABILITIES = {
    "textDocument": {"inlineCompletion": {}},
    "experimental": {"infillDrafts": True},
    "general": {"positionEncodings": ["utf-16"]},
}


@dataclass
class Request:
    """One request for a completion. Times are of the monotonic clock; None: not yet."""

    sent: float
    first: float | None = None
    answered: float | None = None
    cancelled: bool = False
    replies: int = 0
    has_text: bool = False
    error: str = ""


@dataclass(frozen=True)
class ShownItem:
    """A suggestion on the screen: the rest to type at an offset."""

    id: str
    offset: int
    rest: str


@dataclass
class LoadEditor:
    """One connection to a server, with one document. `told` counts the messages shown to the user."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    uri: str
    text: str = ""
    requests: list[Request] = field(default_factory=list)
    accepted: int = 0
    told: Counter[str] = field(default_factory=Counter)
    shown: ShownItem | None = None
    _version: int = 1
    _last_id: int = 0
    _waiting: dict[int, asyncio.Future[Any]] = field(default_factory=dict)
    _asked: dict[int, tuple[Request, int]] = field(default_factory=dict)
    _reading: asyncio.Task[None] | None = None
    _quiet: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self, language: str, text: str) -> None:
        """Begins a session and opens the document."""
        self._reading = asyncio.create_task(self._read())
        await self.ask("initialize", {"capabilities": _CAPABILITIES, "processId": None, "rootUri": None})
        self.tell("initialized", {})
        self.text = text
        document = {"uri": self.uri, "languageId": language, "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})

    async def close(self) -> None:
        """Ends the session as an editor does."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(10):
                await self.ask("shutdown", None)
            self.tell("exit", None)
        if self._reading:
            self._reading.cancel()
        self.writer.close()

    def edit(self, offset: int, removed: int, new: str) -> None:
        """Changes the text, and requests a completion, as an editor does on each keystroke."""
        self._change(offset, removed, new)
        self._ask_for_completion(offset + len(new.rstrip("\n")))

    def replace_all(self, text: str) -> None:
        """Starts again with another text."""
        self._change(0, len(self.text), text)

    async def all_answered(self, limit_s: float) -> None:
        """Waits for the replies to all requests, but no longer than this."""
        self._quiet.clear()
        self._settle()
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._quiet.wait()

    def _settle(self) -> None:
        if not self.unanswered:
            self._quiet.set()

    def _change(self, offset: int, removed: int, new: str) -> None:
        change = {"range": {"start": self._at(offset), "end": self._at(offset + removed)}, "text": new}
        self._version += 1
        document = {"uri": self.uri, "version": self._version}
        self.tell("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})
        self.text = self.text[:offset] + new + self.text[offset + removed :]
        self.shown = None

    def accept(self, shown: ShownItem) -> None:
        """Inserts the shown suggestion."""
        self.accepted += 1
        self.tell("infill/didAccept", {"textDocument": {"uri": self.uri}, "id": shown.id, "acceptedLength": None})
        self.edit(shown.offset, 0, shown.rest)

    @property
    def unanswered(self) -> list[Request]:
        """The requests without a reply."""
        return [request for request in self.requests if not request.replies]

    async def ask(self, method: str, params: Any) -> Any:
        """The reply to a request."""
        self._last_id += 1
        reply = self._waiting[self._last_id] = asyncio.get_running_loop().create_future()
        self._send({"id": self._last_id, "method": method, "params": params})
        return await reply

    def tell(self, method: str, params: Any) -> None:
        """Sends a notification."""
        self._send({"method": method, "params": params})

    def _ask_for_completion(self, offset: int) -> None:
        """The older request is cancelled: its answer is no longer wanted."""
        for number, (older, _) in self._asked.items():
            if not older.replies and not older.cancelled:
                older.cancelled = True
                self.tell("$/cancelRequest", {"id": number})
        self._last_id += 1
        request = Request(time.monotonic())
        self.requests.append(request)
        self._asked[self._last_id] = (request, offset)
        where = {"textDocument": {"uri": self.uri}, "position": self._at(offset)}
        params = {**where, "context": {"triggerKind": 2}}
        self._send({"id": self._last_id, "method": "textDocument/inlineCompletion", "params": params})

    def _at(self, offset: int) -> dict[str, int]:
        line = self.text.count("\n", 0, offset)
        return {"line": line, "character": offset - (self.text.rfind("\n", 0, offset) + 1)}

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    async def _read(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                header = await self.reader.readuntil(b"\r\n\r\n")
                length = int(header.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                self._take(json.loads(await self.reader.readexactly(length)))
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(ConnectionError("the server has ended"))

    def _take(self, message: dict[str, Any]) -> None:
        number, params = message.get("id"), message.get("params")
        match message.get("method"):
            case None if number in self._asked:
                self._take_answer(*self._asked[number], message)
            case None if number in self._waiting:
                self._waiting.pop(number).set_result(message)
            case "infill/draft" if isinstance(params, dict) and params.get("version") == self._version:
                self._take_draft()
            case "window/showMessage" if isinstance(params, dict):
                self.told[params["message"]] += 1
            case str() if number is not None:  # the server asks; reply like an editor with no answer
                self._send({"id": number, "result": None})

    def _take_draft(self) -> None:
        newest = self.requests[-1] if self.requests else None
        if newest and newest.first is None and not newest.replies:
            newest.first = time.monotonic()

    def _take_answer(self, request: Request, offset: int, message: dict[str, Any]) -> None:
        request.replies += 1
        self._settle()
        request.answered = request.answered or time.monotonic()
        error = message.get("error")
        if error and error.get("code") != _CANCELLED:
            request.error = f"{error.get('code')}: {error.get('message')}"
        items = (message.get("result") or {}).get("items") or []
        if not items or request.cancelled:
            return
        request.has_text, request.first = True, request.first or request.answered
        if request is self.requests[-1]:
            self.shown = self._shown(items[0], offset)

    def _shown(self, item: dict[str, Any], offset: int) -> ShownItem | None:
        """A suggestion for the line of the cursor; None if it would replace text behind the cursor."""
        start, end = item["range"]["start"], item["range"]["end"]
        here = self._at(offset)
        before = here["character"] - start["character"]
        if start["line"] != here["line"] or end != here or before < 0:
            return None
        (name, *_) = item["command"]["arguments"]
        return ShownItem(name, offset, item["insertText"][before:])

"""An editor of raw JSON that keeps its texts, applies edits, and records what a server answers."""

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

from tests.replay.worker_protocol import ScriptedWorker

Place = dict[str, int]
_CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
PATIENCE_S = 60


class Editor:
    """One server process. `record` gets every answer."""

    def __init__(self, process: asyncio.subprocess.Process, worker: ScriptedWorker) -> None:
        self.record: list[Any] = []
        self.texts: dict[str, str] = {}
        self.encoding = "utf-16"
        self._versions: dict[str, int] = {}
        self._languages: dict[str, str] = {}
        self._process, self._worker = process, worker
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(
        cls, command: Sequence[str], environment: dict[str, str], worker: ScriptedWorker, **init: Any
    ) -> "Editor":
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, env=environment, limit=2**26)
        editor = cls(process, worker)
        answer = await editor.ask("initialize", init)
        editor.encoding = answer["result"]["capabilities"]["positionEncoding"]
        editor.tell("initialized", {})
        return editor

    def tell(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def begin(self, method: str, params: Any) -> "asyncio.Future[Any]":
        self._last_id += 1
        reply = self._waiting[self._last_id] = asyncio.get_running_loop().create_future()
        self._send({"id": self._last_id, "method": method, "params": params})
        return reply

    async def ask(self, method: str, params: Any) -> Any:
        return await asyncio.wait_for(self.begin(method, params), PATIENCE_S)

    async def note(self, what: str, method: str, params: Any) -> Any:
        """Asks, records the answer, and waits until the server is at rest."""
        answer = await self.ask(method, params)
        self.record.append([what, _told(answer)])
        await self.rest()
        return answer.get("result")

    async def rest(self) -> None:
        """Until the server has handled everything, and has asked the worker whatever it wanted to ask."""
        quiet, before = 0, -1
        while quiet < 2:
            await self.ask("no/such/method", None)
            await asyncio.sleep(0.01)
            now = len(self._worker.asked) + self._worker.unanswered
            quiet, before = (quiet + 1 if now == before else 0), now

    def open(self, uri: str, language: str, text: str) -> None:
        self.texts[uri], self._versions[uri], self._languages[uri] = text, 1, language
        item = {"uri": uri, "languageId": language, "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": item})

    def close(self, uri: str) -> None:
        self.tell("textDocument/didClose", {"textDocument": {"uri": uri}})

    def replace(self, uri: str, start: int, end: int, new: str) -> None:
        """One edit, by offsets."""
        self.apply(uri, [{"range": self.range(uri, start, end), "newText": new}])

    def apply(self, uri: str, edits: Sequence[dict[str, Any]]) -> None:
        """Edits of the protocol, which do not overlap."""
        changes = []
        at = {id(edit): self.offset(uri, edit["range"]["start"]) for edit in edits}
        for edit in sorted(edits, key=lambda edit: at[id(edit)], reverse=True):
            start, end = (self.offset(uri, edit["range"][side]) for side in ("start", "end"))
            changes.append({"range": edit["range"], "text": edit["newText"]})
            self.texts[uri] = self.texts[uri][:start] + edit["newText"] + self.texts[uri][end:]
        self._versions[uri] += 1
        document = {"uri": uri, "version": self._versions[uri]}
        self.tell("textDocument/didChange", {"textDocument": document, "contentChanges": changes})

    def place(self, uri: str, offset: int) -> Place:
        before = _lines(self.texts[uri][:offset])
        codec, unit = _CODECS[self.encoding]
        return {"line": len(before) - 1, "character": len(before[-1].encode(codec)) // unit}

    def range(self, uri: str, start: int, end: int) -> dict[str, Place]:
        return {"start": self.place(uri, start), "end": self.place(uri, end)}

    def offset(self, uri: str, place: Place) -> int:
        lines = _lines(self.texts[uri])
        codec, unit = _CODECS[self.encoding]
        line = lines[place["line"]].encode(codec)[: place["character"] * unit].decode(codec)
        return sum(map(len, lines[: place["line"]])) + len(line)

    async def quit(self) -> None:
        self.record.append(["shutdown", _told(await self.ask("shutdown", None))])
        self.tell("exit", None)
        self.record.append(["exit status", await asyncio.wait_for(self._process.wait(), PATIENCE_S)])
        await self._reading

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    async def _read(self) -> None:
        out = self._process.stdout
        assert out is not None
        while True:
            try:
                header = await out.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            self._take(json.loads(await out.readexactly(int(header.split(b":")[1].split()[0]))))

    def _take(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if method is None:
            self._waiting.pop(message["id"]).set_result(message)
        elif method == "workspace/applyEdit":
            edit = message["params"]["edit"]
            self.record.append(["edit", edit])
            for change in edit["documentChanges"]:
                self.apply(change["textDocument"]["uri"], change["edits"])
            self._send({"id": message["id"], "result": {"applied": True}})
        elif "id" in message:
            self._send({"id": message["id"], "result": None})
        elif method == "window/showMessage":
            self.record.append(["message", message["params"]])


def ids_left_out(value: Any) -> Any:
    """An answer without what differs each time or is the server's own: ids of suggestions, and an action's data."""
    if isinstance(value, list):
        return [ids_left_out(item) for item in value]
    if not isinstance(value, dict):
        return value
    if str(value.get("command", "")).endswith("didAccept"):
        value = {**value, "arguments": ["ID", *value["arguments"][1:]]}
    return {key: ids_left_out(item) for key, item in value.items() if key != "data"}


def _told(answer: dict[str, Any]) -> Any:
    return ids_left_out(answer.get("result", answer.get("error")))


def _lines(text: str) -> list[str]:
    """With their ends; the last one may be empty, as in an editor."""
    found = _LINE.findall(text)
    return found[:-1] if len(found) > 1 and not found[-1] and not text.endswith(("\r", "\n")) else found

"""An editor of raw JSON that keeps its texts, applies edits, and records what a server answers."""

import asyncio
import json
from collections.abc import Sequence
from itertools import count
from typing import Any

from tests import reference
from tests.e2e.raw_client import Channel, Framed, RawClient
from tests.replay.worker_protocol import ScriptedWorker

_numbers = count(1)


class Overheard(Framed):
    """Frames of which an editor hears before it takes them."""

    listener: "Editor"

    async def receive(self) -> bytes | None:
        body = await super().receive()
        if body is not None:
            self.listener.heard(json.loads(body))
        return body


class Editor(RawClient):
    """One server process. `record` gets every answer."""

    worker: ScriptedWorker

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self.record: list[Any] = []
        self.texts: dict[str, str] = {}
        self.answers |= {"workspace/applyEdit": self._applied}
        self._versions: dict[str, int] = {}

    @classmethod
    async def begin(
        cls, command: Sequence[str], environment: dict[str, str], worker: ScriptedWorker, **init: Any
    ) -> "Editor":
        pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE, "limit": 2**26}
        process = await asyncio.create_subprocess_exec(*command, env=environment, **pipes)
        channel = Overheard(process.stdout, process.stdin)
        editor = channel.listener = cls(channel)
        editor.process, editor.worker = process, worker
        answer = await editor.answer("initialize", init)
        editor.encoding = answer["result"]["capabilities"]["positionEncoding"]
        editor.tell("initialized", {})
        return editor

    def tell(self, method: str, params: Any) -> None:
        self.send({"method": method, "params": params})

    def ask_for(self, method: str, params: Any) -> int:
        """The id of the request."""
        key = next(_numbers)
        self.request(key, method, params)
        return key

    async def answer(self, method: str, params: Any) -> dict[str, Any]:
        """The reply, which may be an error."""
        return await self.reply(self.ask_for(method, params))

    async def note(self, what: str, method: str, params: Any) -> Any:
        """Asks, records the answer, and waits until the server is at rest."""
        answer = await self.answer(method, params)
        self.record.append([what, _told(answer)])
        await self.rest()
        return answer.get("result")

    async def rest(self) -> None:
        """Until the server has handled everything, and has asked the worker whatever it wanted to ask."""
        quiet, before = 0, -1
        while quiet < 2:
            await self.answer("no/such/method", None)
            await asyncio.sleep(0.01)
            now = len(self.worker.asked) + self.worker.unanswered
            quiet, before = (quiet + 1 if now == before else 0), now

    def open(self, uri: str, text: str, language: str = "python") -> None:
        self.texts[uri], self._versions[uri] = text, 1
        super().open(uri, text, language)

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

    def place(self, uri: str, offset: int) -> reference.Place:
        return reference.position(self.texts[uri], offset, self.encoding)

    def range(self, uri: str, start: int, end: int) -> reference.Range:
        return reference.range_of(self.texts[uri], start, end, self.encoding)

    def offset(self, uri: str, place: reference.Place) -> int:
        return reference.offset(self.texts[uri], place, self.encoding)

    async def leave(self) -> None:
        self.record.append(["shutdown", _told(await self.answer("shutdown", None))])
        self.tell("exit", None)
        self.record.append(["exit status", await self.ended()])

    def heard(self, message: dict[str, Any]) -> None:
        """Keeps what is shown in order with the answers; requests of the server get an answer, whatever they are."""
        if message.get("method") == "window/showMessage":
            self.record.append(["message", message["params"]])
        if "id" in message and "method" in message:
            self.answers.setdefault(message["method"], lambda _: None)

    def _applied(self, params: Any) -> dict[str, bool]:
        self.record.append(["edit", params["edit"]])
        for change in params["edit"]["documentChanges"]:
            self.apply(change["textDocument"]["uri"], change["edits"])
        return {"applied": True}


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

"""A simulated typist: one document with its text and cursor, as in an editor, over a client that sends frames."""

import asyncio
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from lsprotocol.types import Position, Range

from tests.e2e import reference
from tests.e2e.raw_client import RawClient
from tests.workers import ATTEMPTS, PATIENCE_S

CURSOR = "‸"
ENCODING = "utf-16"
_numbers = count(1)
Item = dict[str, Any]


def replaced(client: RawClient, uri: str, version: int, text: str, start: int, end: int, new: str) -> str:
    """The text after a change, which the server is told."""
    first, last = (_plain(reference.position(text, at, ENCODING)) for at in (start, end))
    change = {"range": {"start": first, "end": last}, "text": new}
    document = {"uri": uri, "version": version}
    client.send({"method": "textDocument/didChange", "params": {"textDocument": document, "contentChanges": [change]}})
    return text[:start] + new + text[end:]


@dataclass
class Typist:
    """`worker_log` tells of each request that the worker has ended."""

    client: RawClient
    worker_logs: Path
    text: str
    cursor: int
    uri: str = field(default_factory=lambda: f"file:///typed/{next(_numbers)}.py")
    version: int = 1

    @classmethod
    def at(cls, client: RawClient, runtime: Path, marked: str) -> "Typist":
        """Open a document; the cursor stands where it is marked."""
        user = cls(client, runtime, marked.replace(CURSOR, ""), marked.index(CURSOR))
        client.open(user.uri, user.text)
        return user

    def replace(self, start: int, end: int, new: str) -> None:
        """Change the text; the cursor stands behind what is new."""
        self.cursor, self.version = start + len(new), self.version + 1
        self.text = replaced(self.client, self.uri, self.version, self.text, start, end, new)

    def type(self, new: str) -> None:
        self.replace(self.cursor, self.cursor, new)

    def delete(self, characters: int) -> None:
        self.replace(self.cursor - characters, self.cursor, "")

    def ask(self, *, invoked: bool = False, **more: object) -> str:
        """Ask for inline completions at the cursor; the id of the request."""
        key = f"asked {next(_numbers)}"
        context: dict[str, object] = {"triggerKind": 1 if invoked else 2}
        if "selected" in more:
            context["selectedCompletionInfo"] = more.pop("selected")
        at = _plain(reference.position(self.text, self.cursor, ENCODING))
        params = {"textDocument": {"uri": self.uri}, "position": at, "context": context, **more}
        self.client.request(key, "textDocument/inlineCompletion", params)
        return key

    async def items(self, key: str) -> list[Item]:
        return (await self.client.reply(key))["result"]["items"]

    async def offered(self, *, invoked: bool = False, at_least: int = 1, **more: object) -> Item:
        """The first item at the cursor; the model is small, and may need several goes at one that is long enough."""
        for _ in range(ATTEMPTS):
            items = await self.items(self.ask(invoked=invoked, **more))
            if items and len(self.rest(items[0]).strip()) >= at_least:
                return items[0]
            for item in items:
                self.says("infill/didReject", id=self.id(item))
        raise AssertionError(f"nothing offered in {ATTEMPTS} attempts")

    @staticmethod
    def id(item: Item) -> str:
        """What the item is called when it is accepted or turned down."""
        return item["command"]["arguments"][0]

    def applied(self, item: Item) -> str:
        start, end = self.span(item)
        return self.text[:start] + str(item["insertText"]) + self.text[end:]

    def rest(self, item: Item) -> str:
        start, _ = self.span(item)
        fill: str = item["insertText"]
        assert fill.startswith(self.text[start : self.cursor])
        return fill[self.cursor - start :]

    def span(self, item: Item) -> tuple[int, int]:
        """What the item replaces, which must lie on the cursor's line."""
        ends = (item["range"]["start"], item["range"]["end"])
        assert ends[0]["line"] == ends[1]["line"] == self.text.count("\n", 0, self.cursor)
        return reference.span(self.text, Range(*(Position(**end) for end in ends)), ENCODING)

    async def requests(self) -> int:
        """How many requests the worker has ended, once it has none."""
        while not _is_idle(await self.client.status()):
            await asyncio.sleep(0.02)
        return len(self.told())

    def told(self) -> list[str]:
        """How each request that the worker has ended so far has ended."""
        logs = self.worker_logs.glob("*.log*")
        lines = sorted(line for log in logs for line in log.read_text().splitlines())  # by their time: several workers
        return [line.rpartition(": ")[2] for line in lines if "a request ended" in line]

    async def becomes_idle(self, *, after: int) -> list[str]:
        """How the requests since the first `after` ended, once there is at least one and none is left.

        By then the server has their answers, too: the worker's log has each line before its answer is sent.
        """
        async with asyncio.timeout(PATIENCE_S):
            while True:
                told = self.told()[after:]
                if told and _is_idle(await self.client.status()):
                    return told
                await asyncio.sleep(0.02)

    def says(self, method: str, **more: object) -> None:
        self.client.send({"method": method, "params": {"textDocument": {"uri": self.uri}, **more}})


def _is_idle(status: dict[str, Any]) -> bool:
    return not (status["running"] or status["waiting"] or status["computing"])


def _plain(position: Position) -> dict[str, int]:
    return {"line": position.line, "character": position.character}

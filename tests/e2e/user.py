"""A user with one document in an editor: types, asks, and takes what the server answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from tests import reference
from tests.e2e.raw_client import Place, RawClient, Refused, between
from tests.workers import ATTEMPTS, until

CURSOR = "‸"
NOTHING_FITS = "the model found nothing that fits here"
REQUEST_FAILED = -32803
_numbers = count(1)
Item = dict[str, Any]
TextEdit = dict[str, Any]


@dataclass
class User:
    """`text` may have a mark where the cursor stands. `refuses` is why the editor applies no edit.

    `edits` are those that came for the document, whether they were applied or not; `rejected` counts suggestions.
    """

    client: RawClient
    text: str
    language: str = "python"
    name: str = "main.py"
    uri: str = ""
    refuses: str = ""

    def __post_init__(self) -> None:
        self.cursor = max(self.text.find(CURSOR), 0)
        self.text = self.text.replace(CURSOR, "")
        self.uri = self.uri or f"file:///project/{next(_numbers)}/{self.name}"
        self.version = 1
        self.edits: list[Any] = []
        self.rejected = 0
        self.looks_again()
        self.client.open(self.uri, self.text, self.language)

    def looks_again(self) -> None:
        """Of what came so far nothing counts any more."""
        self._seen = len(self.client.notes)

    def told(self, method: str) -> list[Any]:
        """The params of what came under a name since the document was opened."""
        return self.client.told(method, self._seen)

    @property
    def drafts(self) -> list[Any]:
        return self.told("infill/draft")

    @staticmethod
    def check_draft(hole: dict[str, Any]) -> None:
        """The text of a hole of a draft is in pieces with a probability each."""
        assert "".join(hole["pieces"]) == hole["text"]
        assert len(hole["pieces"]) == len(hole["confidences"])
        assert all(0 <= confidence <= 1 for confidence in hole["confidences"])

    def progress(self, token: object) -> list[Any]:
        """What was shown under a token: begin, report, …, end."""
        return [each["value"] for each in self.told("$/progress") if each["token"] == token]

    def kinds(self, token: object) -> list[str]:
        return [value["kind"] for value in self.progress(token)]

    def place(self, at: int) -> Place:
        found = reference.position(self.text, at, self.client.encoding)
        return found["line"], found["character"]

    def around(self, piece: str) -> tuple[Place, Place]:
        """Where a piece of the text begins and ends."""
        start = self.text.index(piece)
        return self.place(start), self.place(start + len(piece))

    def replace(self, start: int, end: int, new: str) -> None:
        """Change the text; the cursor stands behind what is new."""
        place = reference.range_of(self.text, start, end, self.client.encoding)
        self._change({"range": place, "text": new})
        self.text, self.cursor = self.text[:start] + new + self.text[end:], start + len(new)

    def retype(self, text: str) -> None:
        """Another text altogether."""
        self._change({"text": text})
        self.text, self.cursor = text, 0

    def type(self, new: str) -> None:
        self.replace(self.cursor, self.cursor, new)

    def delete(self, characters: int) -> None:
        self.replace(self.cursor - characters, self.cursor, "")

    def exchange(self, piece: str, new: str) -> None:
        start = self.text.index(piece)
        self.replace(start, start + len(piece), new)

    def apply(self, edits: Sequence[TextEdit]) -> None:
        """As one change for each edit, in one message, the last place first."""
        edits = sorted(edits, key=lambda each: tuple(each["range"]["start"].values()), reverse=True)
        self._change(*({"range": each["range"], "text": each["newText"]} for each in edits))
        for each in edits:
            start, end = reference.span(self.text, each["range"], self.client.encoding)
            self.text = self.text[:start] + each["newText"] + self.text[end:]

    def _change(self, *changes: dict[str, Any]) -> None:
        self.version += 1
        document = {"uri": self.uri, "version": self.version}
        params = {"textDocument": document, "contentChanges": changes}
        self.client.send({"method": "textDocument/didChange", "params": params})

    def edits_of(self, edit: Any) -> list[TextEdit]:
        """The edits for this document, which must be the only ones, and for what it holds now."""
        if not edit.get("documentChanges"):
            assert set(edit["changes"]) == {self.uri}
            return list(edit["changes"][self.uri])
        (change,) = edit["documentChanges"]
        assert change["textDocument"] == {"uri": self.uri, "version": self.version}
        return list(change["edits"])

    def says(self, method: str, **more: object) -> None:
        self.client.send({"method": method, "params": {"textDocument": {"uri": self.uri}, **more}})

    def ask(self, *, invoked: bool = False, **more: Any) -> str:
        """Ask for inline completions at the cursor; the id of the request."""
        key = f"asked {next(_numbers)}"
        context: dict[str, object] = {"triggerKind": 1 if invoked else 2}
        if "selected" in more:
            context["selectedCompletionInfo"] = more.pop("selected")
        at = reference.position(self.text, self.cursor, self.client.encoding)
        params = {"textDocument": {"uri": self.uri}, "position": at, "context": context, **more}
        self.client.request(key, "textDocument/inlineCompletion", params)
        return key

    async def items(self, key: str) -> list[Item]:
        return list((await self.client.reply(key))["result"]["items"])

    async def complete(self, *, invoked: bool = True, **more: Any) -> list[Item]:
        return await self.items(self.ask(invoked=invoked, **more))

    async def offered(self, *, invoked: bool = False, at_least: int = 1, **more: Any) -> Item:
        """The first item at the cursor; the model is small, and may need several goes at one that is long enough."""
        for _ in range(ATTEMPTS):
            items = await self.complete(invoked=invoked, **more)
            if items and len(self.rest(items[0]).strip()) >= at_least:
                return items[0]
            for item in items:
                self.says("infill/didReject", id=self.id(item))
                self.rejected += 1
        raise AssertionError(f"nothing offered in {ATTEMPTS} attempts")

    @staticmethod
    def id(item: Item) -> str:
        """What the item is called when it is accepted or turned down."""
        return item["command"]["arguments"][0]

    def rest(self, item: Item) -> str:
        """What is new of an item, which editors drop if it does not begin with what was typed."""
        start, _ = self.span(item)
        fill: str = item["insertText"]
        assert fill.startswith(self.text[start : self.cursor])
        return fill[self.cursor - start :]

    def span(self, item: Item) -> tuple[int, int]:
        """What the item replaces, which must lie on the cursor's line."""
        ends = (item["range"]["start"], item["range"]["end"])
        assert ends[0]["line"] == ends[1]["line"] == self.place(self.cursor)[0]
        start, end = reference.span(self.text, item["range"], self.client.encoding)
        assert start <= self.cursor <= end
        return start, end

    async def actions(self, first: Place, last: Place | None = None, **context: Any) -> list[dict[str, Any]]:
        return await self.client.actions(self.uri, first, last, **context)

    async def resolved(self, action: dict[str, Any]) -> list[TextEdit]:
        """The edits of an action. Raises Refused."""
        self.edits.append((await self.client.ask("codeAction/resolve", action))["edit"])
        return self.edits_of(self.edits[-1])

    async def surely_resolved(self, action: dict[str, Any]) -> list[TextEdit]:
        """The embedded model may need more than one go at something that fits."""
        for _ in range(ATTEMPTS):
            try:
                return await self.resolved(action)
            except Refused as refused:
                assert refused.code == REQUEST_FAILED and str(refused).startswith(NOTHING_FITS)
        raise AssertionError(f"nothing that fits in {ATTEMPTS} attempts")

    async def fill(self, name: str, first: Place, last: Place | None = None, **more: Any) -> Any:
        """The answer to a command, whose edit the editor applies unless it refuses. Raises Refused."""
        self.client.answers["workspace/applyEdit"] = self.put_in
        token = more.pop("token", None)
        argument = {"uri": self.uri, "range": between(first, last), **more}
        return await self.client.command(name, argument, token=token)

    async def surely_fill(self, name: str, first: Place, last: Place | None = None, **more: Any) -> None:
        """The embedded model may need more than one go at something that fits."""
        for _ in range(ATTEMPTS):
            answer = await self.fill(name, first, last, **more)
            if answer["applied"]:
                assert answer["reason"] is None or " holes were left unchanged" in answer["reason"]
                return
            assert answer["reason"].startswith(NOTHING_FITS), answer
        raise AssertionError(f"nothing that fits in {ATTEMPTS} attempts")

    def put_in(self, params: Any) -> dict[str, Any]:
        self.edits.append(params["edit"])
        if self.refuses:
            return {"applied": False, "failureReason": self.refuses}
        self.apply(self.edits_of(params["edit"]))
        return {"applied": True}

    async def requests(self) -> int:
        """How many requests the worker has ended, once it has none."""
        await self.client.idle()
        return len(self.ended())

    def ended(self) -> list[str]:
        """How each request that the worker has ended so far has ended."""
        logs = self.client.runtime.glob("*.log*")
        lines = sorted(line for log in logs for line in log.read_text().splitlines())  # by their time: several workers
        return [line.rpartition(": ")[2] for line in lines if "a request ended" in line]

    async def becomes_idle(self, *, after: int) -> list[str]:
        """How the requests since the first `after` ended, once there is at least one and none is left.

        By then the server has their answers, too: the worker's log has each line before its answer is sent.
        """
        await until(lambda: self.ended()[after:])
        await self.client.idle()
        return self.ended()[after:]

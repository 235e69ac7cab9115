"""A scripted worker that answers each hole by rule: its surroundings choose the text."""

import asyncio
import hashlib
import re
from pathlib import Path
from typing import Any

import msgspec

from inference import messages
from inference.messages import Done, FilledHoles, InfillRequest, NextEditRequest, NextEdits, Outcome, ScoredEdit
from tests.lsp_server.inline.scripted_worker import ScriptedWorker

Message = dict[str, Any]
_LINES = (
    *("value", "compute(first, second)", "total + 1", "result)", "", "x\n    y = 2", "'text'", "self.name = name"),
    "(",
)
_BLOCKS = (
    "total = 0\nfor item in items:\n    total += item\nreturn total",
    "    return first",
    "if first:\n    return second\nreturn None\n\n\ndef other():\n    pass",
    "raise NotImplementedError",
)
_STATUS = messages.Status(messages.WorkerState.READY, model="scripted", context_tokens=2048)


class RuledWorker(ScriptedWorker):
    """`asked` keeps the requests as plain maps, without what differs each time."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Message] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.unanswered = 0
        self._running: dict[str, asyncio.Task[None]] = {}

    async def listen(self, socket: Path) -> asyncio.Server:
        socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return await asyncio.start_unix_server(self.serve, socket, limit=2**26)

    def _take(self, message: messages.ClientMessage) -> None:
        match message:
            case messages.Hello():
                self._send(messages.Welcome(), _STATUS)
            case messages.StatusRequest():
                self._send(_STATUS)
            case InfillRequest() | NextEditRequest():
                asked: Message = msgspec.to_builtins(message)
                self.asked.append({key: asked[key] for key in asked if key not in ("id", "seed", "deadline_ms")})
                self._running[message.id] = asyncio.create_task(self._answer(asked))
            case messages.Cancel(id=id_) if id_ in self._running and self._running[id_].cancel():
                self.unanswered -= 1
                self._send(Done(id_, Outcome.CANCELLED))

    async def _answer(self, asked: Message) -> None:
        self.unanswered += 1
        await self.may_answer.wait()
        self._send(*(_edits(asked) if asked["type"] == "next_edit" else _candidates(asked)), Done(asked["id"]))
        self.unanswered -= 1


def _candidates(asked: Message) -> list[FilledHoles]:
    segments = asked["segments"]
    holes = [number for number, segment in enumerate(segments) if segment["type"] == "hole"]
    found = []
    for choice in range(asked.get("candidates", 1)):
        texts = [_text(segments, at, choice) for at in holes]
        pieces = tuple(tuple(re.findall(r"\s*\w+|\s*\W", text)) for text in texts)
        probs = tuple(tuple((_draw([texts, index], 20) + 1) / 20 for index in range(len(words))) for words in pieces)
        found.append(FilledHoles(asked["id"], tuple(texts), -float(choice), pieces=pieces, confidences=probs))
    return found


def _text(segments: list[Message], at: int, choice: int) -> str:
    hole = segments[at]
    before, after = segments[at - 1].get("text", ""), segments[at + 1].get("text", "") if at + 1 < len(segments) else ""
    kind = hole.get("kind", "line")
    texts = _BLOCKS if kind in ("block", "body") and not hole.get("single_line") else _LINES
    number = _draw([kind, before[-40:], after[:40], choice], len(texts) + 2)
    repeated = after.partition("\n")[0], before.rpartition("\n")[2]  # what the server must cut off again
    text: str = [*texts, *repeated][number]
    start: str = hole.get("starts_with", "")
    return start + (text.partition("\n")[0] if hole.get("single_line") else text)


def _edits(asked: Message) -> list[NextEdits]:
    """Gives a later line that repeats the last change the same change."""
    hunk, text = asked["hunks"][-1], asked["text"]
    at = text.find(hunk["old"]) if hunk["old"].strip() else -1
    edits = (ScoredEdit(at, at + len(hunk["old"]), hunk["new"], score=-0.5),) if at >= 0 else ()
    return [NextEdits(asked["id"], edits)]


def _draw(parts: list[Any], below: int) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big") % below

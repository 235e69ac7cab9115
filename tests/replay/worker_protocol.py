"""The worker's protocol in plain maps: a client of a real worker, and a scripted worker that answers by rule."""

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Any

from msgspec import msgpack

Message = dict[str, Any]
_LINES = (
    "value",
    "compute(first, second)",
    "total + 1",
    "result)",
    "",
    "x\n    y = 2",
    "'text'",
    "self.name = name",
    "(",
)
_BLOCKS = (
    "total = 0\nfor item in items:\n    total += item\nreturn total",
    "    return first",
    "if first:\n    return second\nreturn None\n\n\ndef other():\n    pass",
    "raise NotImplementedError",
)


async def receive(reader: asyncio.StreamReader) -> Message:
    length = int.from_bytes(await reader.readexactly(4), "big")
    found: Message = msgpack.decode(await reader.readexactly(length))
    return found


def send(writer: asyncio.StreamWriter, message: Message) -> None:
    payload = msgpack.encode(message)
    writer.write(len(payload).to_bytes(4, "big") + payload)


class WorkerClient:
    """Asks a real worker, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, socket: Path) -> "WorkerClient":
        """Waits until the worker listens and has its model. Raises RuntimeError if it could not load it."""
        while not socket.exists():
            await asyncio.sleep(0.05)
        client = cls(*await asyncio.open_unix_connection(socket, limit=2**26))
        send(client.writer, {"type": "hello", "protocol": 1, "client": "replay", "token": ""})
        while (message := await receive(client.reader)).get("state") not in ("ready", "busy"):
            if message.get("state") == "failed" or message["type"] == "failed":
                raise RuntimeError(f"the worker failed: {message}")
        return client

    async def ask(self, request: Message) -> list[Message]:
        """Every reply to a request, the final one last."""
        send(self.writer, request)
        replies: list[Message] = []
        while not replies or replies[-1]["type"] not in ("done", "failed"):
            if (message := await receive(self.reader)).get("id") == request["id"]:
                replies.append(message)
        return replies


class ScriptedWorker:
    """Answers each hole by rule: its surroundings choose the text. `asked` keeps the requests."""

    def __init__(self) -> None:
        self.asked: list[Message] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.unanswered = 0

    async def listen(self, socket: Path) -> asyncio.Server:
        socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return await asyncio.start_unix_server(self._serve, socket, limit=2**26)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        running: dict[str, tuple[Message, asyncio.Task[None]]] = {}
        try:
            while True:
                message = await receive(reader)
                match message["type"]:
                    case "hello":
                        send(writer, {"type": "welcome", "protocol": 1, "version": "0", "pid": os.getpid()})
                        send(writer, self._status())
                    case "status_request":
                        send(writer, self._status())
                    case "infill" | "next_edit":
                        left_out = ("id", "seed", "deadline_ms")  # what differs each time
                        self.asked.append({key: value for key, value in message.items() if key not in left_out})
                        task = asyncio.create_task(self._answer(writer, message))
                        running[message["id"]] = message, task
                    case "amend" if message["id"] in running:
                        running[message["id"]][0].setdefault("typed", {})[message["hole"]] = message["text"]
                    case "cancel" if message["id"] in running and running[message["id"]][1].cancel():
                        self.unanswered -= 1
                        send(writer, {"type": "done", "id": message["id"], "outcome": "cancelled"})
        except (EOFError, OSError):
            writer.close()

    def _status(self) -> Message:
        return {"type": "status", "state": "ready", "model": "scripted", "context_tokens": 2048, "pid": os.getpid()}

    async def _answer(self, writer: asyncio.StreamWriter, request: Message) -> None:
        self.unanswered += 1
        await self.may_answer.wait()
        for message in _edits(request) if request["type"] == "next_edit" else _candidates(request):
            send(writer, {"id": request["id"], **message})
        send(writer, {"type": "done", "id": request["id"]})
        self.unanswered -= 1


def _candidates(request: Message) -> list[Message]:
    segments, typed = request["segments"], request.get("typed", {})
    holes = [number for number, segment in enumerate(segments) if segment["type"] == "hole"]
    found = []
    for choice in range(request.get("candidates", 1)):
        texts = [_text(segments, at, choice, typed.get(number, "")) for number, at in enumerate(holes)]
        confidence = 0.05 + _draw(texts, 20) / 20
        found.append({"type": "candidate", "texts": texts, "score": -float(choice), "confidence": confidence})
    return found


def _text(segments: list[Message], at: int, choice: int, typed: str) -> str:
    hole = segments[at]
    before, after = segments[at - 1].get("text", ""), segments[at + 1].get("text", "") if at + 1 < len(segments) else ""
    kind = hole.get("kind", "line")
    texts = _BLOCKS if kind in ("block", "body") and not hole.get("single_line") else _LINES
    number = _draw([kind, before[-40:], after[:40], choice], len(texts) + 2)
    repeated = after.partition("\n")[0], before.rpartition("\n")[2]  # what the server must cut off again
    text: str = [*texts, *repeated][number]
    start: str = typed or hole.get("starts_with", "")
    return start + (text.partition("\n")[0] if hole.get("single_line") else text)


def _edits(request: Message) -> list[Message]:
    """Gives a later line that repeats the last change the same change."""
    hunk, text = request["hunks"][-1], request["text"]
    at = text.find(hunk["old"]) if hunk["old"].strip() else -1
    edit = {"start": at, "end": at + len(hunk["old"]), "text": hunk["new"], "score": -0.5}
    return [{"type": "next_edits", "edits": [edit] if at >= 0 else []}]


def _draw(parts: list[Any], below: int) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big") % below

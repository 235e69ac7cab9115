"""A server without a transport, whose output is kept, and a conversation that is none."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from lsp_server.lsp.transports import Write
from lsp_server.server import InfillServer
from tests.workers import until


class KeptOutput:
    """Keeps the bodies of all messages that are written to it."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def write(self, body: bytes) -> None:
        self.bodies.append(body)

    @property
    def messages(self) -> list[Any]:
        """All messages, which must be strict JSON."""
        return [json.loads(body, parse_constant=lambda name: 1 / 0) for body in self.bodies]

    @property
    def replies(self) -> list[Any]:
        return [message for message in self.messages if "method" not in message]


class Kept:
    """A conversation that keeps what it receives."""

    exit_status = 0

    def __init__(self, write: Write) -> None:
        self.write = write
        self.ended = asyncio.Event()
        self.received: list[bytes] = []

    def receive(self, body: bytes) -> None:
        self.received.append(body)

    async def leave(self) -> None:
        pass


class ServerUnderTest:
    """An initialized server, to which a test may add handlers, and what the server has sent since."""

    def __init__(self) -> None:
        self.output = KeptOutput()
        self.server = InfillServer({}, self.output.write)
        self.send(id=0, method="initialize", params={"capabilities": {}})
        self.output.bodies.clear()

    def add(self, method: str, handler: Callable[[Any], Any]) -> None:
        self.server.protocol.handlers[method] = handler

    def say(self, body: bytes) -> None:
        self.server.protocol.receive(body)

    def send(self, **message: Any) -> None:
        self.say(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def told(self, replies: int = 1) -> list[tuple[Any, int | None]]:
        """The id of each reply, and its error code, once there are so many."""
        await until(lambda: len(self.output.replies) >= replies)
        return [(reply["id"], reply.get("error", {}).get("code")) for reply in self.output.replies]

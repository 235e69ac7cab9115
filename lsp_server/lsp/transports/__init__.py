"""Carry messages to and from clients over standard input and output, TCP or WebSocket; know bytes, not their meaning.

A transport calls its `StartConversation` for each client that connects, and passes on what the client sends.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

MAX_BODY_BYTES = 64 * 1024 * 1024
"""No editor sends a longer message; it would only fill the memory."""
MAX_UNREAD_BYTES = 64 * 1024 * 1024
"""The one client of stdio counts as gone when it leaves more output than this unread."""
MAX_QUEUED_BYTES = 8 * 1024 * 1024
"""One client among others is cut off sooner."""
TURN_S = 0.005
"""One client's messages may keep the others waiting for so long."""
FLUSH_S = 1.0
"""So long may the last messages to a client take."""
LEAVE_S = 5.0
"""So long may the clients take to be left when the server ends; more than each needs that does not hang."""


class Writer(Protocol):
    """Where one client's messages go. Never blocks and never raises; once the client is gone it does nothing."""

    def write(self, body: bytes) -> None:
        """Send one message."""

    def close(self) -> None:
        """Send no more."""


class Conversation(Protocol):
    """The server's side of the conversation with one client. `ended` is set when the client has said goodbye."""

    ended: asyncio.Event

    def receive(self, body: bytes) -> None:
        """Take one message of the client; it is handled before any later one is looked at. Never raises."""

    async def leave(self) -> None:
        """The client is gone: stop what runs for it."""


StartConversation = Callable[[Writer], Conversation]
"""Called for each client that connects, with the writer that its messages go to."""


async def serve_client(conversation: Conversation, listening: Coroutine[Any, Any, None]) -> None:
    """Run `listening`, which passes on what a client says, until it ends or the client says goodbye."""
    tasks = {asyncio.create_task(listening), asyncio.create_task(conversation.ended.wait())}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await conversation.leave()


class Clients:
    """The conversations with all clients that are connected."""

    def __init__(self) -> None:
        self._conversations: dict[asyncio.Task[Any], Conversation] = {}

    async def serve(self, conversation: Conversation, listening: Coroutine[Any, Any, None]) -> None:
        """`serve_client`, in the task that ends when the connection has ended."""
        if task := asyncio.current_task():
            self._conversations[task] = conversation
            task.add_done_callback(self._conversations.pop)
        await serve_client(conversation, listening)

    async def leave(self) -> None:
        """End every conversation; returns when the connections have ended, or after `LEAVE_S`."""
        for conversation in self._conversations.values():
            conversation.ended.set()
        if tasks := tuple(self._conversations):
            await asyncio.wait(tasks, timeout=LEAVE_S)


class ListeningServer:
    """Listens for clients. `stop` is called to let no more of them in."""

    def __init__(self, stop: Callable[[], None], clients: Clients) -> None:
        self._stop = stop
        self._clients = clients

    async def close(self) -> None:
        """Let no more clients in, answer and leave those that are there, and do not wait for one that hangs."""
        self._stop()
        await self._clients.leave()

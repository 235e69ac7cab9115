"""Carry messages to and from clients over standard input and output, TCP or WebSocket, as opaque bytes."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

MAX_BODY_BYTES = 64 * 1024 * 1024
"""No editor sends longer messages; they would only fill the memory."""
MAX_UNREAD_BYTES = 64 * 1024 * 1024
"""Treat the one client of stdio as gone when it leaves more output than this unread."""
MAX_QUEUED_BYTES = 8 * 1024 * 1024
"""With several clients, cut one off sooner."""
TURN_S = 0.005
"""One client's messages may block the others for this long."""
FLUSH_S = 1.0
"""The last messages to a client may take this long."""
LEAVE_S = 5.0
"""Limit for all clients to leave when the server ends; longer than any client that does not hang needs."""


class ByteWriter(Protocol):
    """Where one client's messages go. Never blocks and never raises; does nothing once the client is gone."""

    def write(self, body: bytes) -> None:
        """Sends one message."""

    def close(self) -> None:
        """Stops sending."""


class Conversation(Protocol):
    """The server's side of the conversation with one client. `ended` is set when the client has said goodbye."""

    ended: asyncio.Event

    def receive(self, body: bytes) -> None:
        """Handles one message from the client before the next is read. Never raises."""

    async def leave(self) -> None:
        """The client is gone: stops its requests."""


StartConversation = Callable[[ByteWriter], Conversation]
"""Called for each client that connects, with a writer for its messages."""


class ListeningServer:
    """The conversations with all connected clients. `stop`, once set, closes the door to new ones."""

    def __init__(self) -> None:
        self.stop: Callable[[], None] = lambda: None
        self._conversations: dict[asyncio.Task[Any], Conversation] = {}

    async def serve(self, conversation: Conversation, listening: Coroutine[Any, Any, None]) -> None:
        """Runs `listening`, which passes on messages, until it ends or the client says goodbye. Call it in a task."""
        if current := asyncio.current_task():
            self._conversations[current] = conversation
            current.add_done_callback(self._conversations.pop)
        tasks = {asyncio.create_task(listening), asyncio.create_task(conversation.ended.wait())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await conversation.leave()

    async def close(self) -> None:
        """Stops accepting clients and leaves the current ones; does not wait for a hung one longer than `LEAVE_S`."""
        self.stop()
        for conversation in self._conversations.values():
            conversation.ended.set()
        if tasks := tuple(self._conversations):
            await asyncio.wait(tasks, timeout=LEAVE_S)

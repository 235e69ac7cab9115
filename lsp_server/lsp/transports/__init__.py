"""Carry messages to and from clients over standard input and output, TCP or WebSocket; know bytes, not their meaning.

A transport calls its `StartConversation` for each client that connects, and passes on what the client sends.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

MAX_BODY_BYTES = 64 * 1024 * 1024
"""No editor sends a longer message; it would only fill the memory."""
MAX_UNREAD_BYTES = 64 * 1024 * 1024
"""A client that leaves more output than this unread counts as gone."""


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

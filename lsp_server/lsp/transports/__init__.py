"""How messages come in and go out: standard input and output, TCP, WebSocket. Knows bytes, not what is in them.

A transport is given a `Host`: it calls it for each client that comes, and passes on what that client sends.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

MAX_BODY_BYTES = 64 * 1024 * 1024
"""A longer message is no editor's: it would only fill the memory."""
MAX_UNREAD_BYTES = 64 * 1024 * 1024
"""Output that a client has not read, over which it counts as gone."""


class Writer(Protocol):
    """Where one client's messages go. Never blocks and never raises; once the client is gone it does nothing."""

    def write(self, body: bytes) -> None:
        """Send one message."""

    def close(self) -> None:
        """Send no more."""


class Talk(Protocol):
    """The server's side of the conversation with one client. `ended` is set when the client has said goodbye."""

    ended: asyncio.Event

    def receive(self, body: bytes) -> None:
        """One message of the client's, at once: it may look at nothing that comes later. Never raises."""

    async def leave(self) -> None:
        """The client is gone: stop what runs for it."""


Host = Callable[[Writer], Talk]
"""Called for each client that comes, with where its messages go."""


async def converse(talk: Talk, listening: Coroutine[Any, Any, None]) -> None:
    """Pass on what a client says until `listening` ends or the client has said goodbye, then let go of it."""
    tasks = {asyncio.create_task(listening), asyncio.create_task(talk.ended.wait())}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await talk.leave()

"""One text from a server: streamed, read in batches, cut where it ends."""

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing

import msgspec

from inference.engine.middle.question import Question
from inference.remote.http import Client, ServerError
from inference.remote.partner.interfaces import DONE, Events, Interface, Piece, most_characters

_LONGEST_S = 300.0
"""How long a text without a deadline may take: a server may stream for ever."""
_BATCH = 256
"""Read this many events before yielding to the event loop."""


class Answer:
    """The text that a server writes for a question. `receive` it in a task, and look at it meanwhile."""

    def __init__(self, client: Client, interface: Interface, asked: Question, deadline: float | None) -> None:
        self.question = asked
        self.end = ""
        """Why it has ended: "stop", or "length" if it was cut."""
        self.first_ms = 0.0
        """The delay of the first text after the request; 0 before."""
        self._client = client
        self._interface = interface
        self._deadline = deadline
        self._said = ""
        self._sure: list[tuple[int, tuple[float, ...]]] = []

    async def receive(self, on_text: Callable[[], None]) -> None:
        """Receives the text; calls `on_text` when there is more. Raises ServerError, TimeoutError at the limit."""
        body = msgspec.json.encode(self._interface.body(self.question))
        events = Events()
        began = time.monotonic()
        async with asyncio.timeout(_LONGEST_S):
            async with aclosing(self._client.stream(self._interface.path, body, self._deadline)) as parts:
                async for part in parts:
                    with self._client.making_sense():
                        await self._take(events.feed(part))
                    if self._said and not self.first_ms:
                        self.first_ms = (time.monotonic() - began) * 1000
                    on_text()
                    if self.end:
                        break
        if not self._said and not self._sure:
            raise ServerError(f"the server {self._client.url} ended its answer without any text; see its log")
        self.end = self.end or "length"  # a stream without an end event may have broken off

    async def _take(self, events: list[bytes]) -> None:
        for first in range(0, len(events), _BATCH):
            pieces = [self._interface.read(event) for event in events[first : first + _BATCH]]
            self._add([piece for piece in pieces if piece is not None])
            if self.end:
                return
            await asyncio.sleep(0)

    def _add(self, pieces: list[Piece]) -> None:
        length = len(self._said)
        for piece in pieces:
            length += len(piece.text)
            if piece is not DONE:
                self._sure.append((length, piece.sure))
            self.end = self.end or piece.end
        most = most_characters(self.question)
        self._said = (self._said + "".join(piece.text for piece in pieces))[: most + 1]
        if self._interface.find(self._said, self.question, ended=False).is_closed:
            self.end = "stop"
        elif len(self._said) > most:
            self.end = "length"

    @property
    def tokens(self) -> int:
        """The number of tokens so far, as far as known."""
        return sum(max(1, len(sure)) for _, sure in self._sure)

    @property
    def text(self) -> str:
        """The fill so far, after its required start; once it has ended, fitted to the file."""
        found = self._interface.find(self._said, self.question, ended=bool(self.end))
        return self._interface.fitted(self._said[found.start : found.end], self.question, ended=bool(self.end))

    @property
    def sure(self) -> tuple[float, ...]:
        """The probabilities of the fill's tokens, as far as known."""
        found = self._interface.find(self._said, self.question, ended=bool(self.end))
        return tuple(value for end, values in self._sure if found.start < end <= found.end for value in values)

"""One text from a server: streamed, read in batches, cut where it ends."""

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing

import msgspec

from inference.engine.middle.question import Question
from inference.remote.answers import AnswerError
from inference.remote.client import Client
from inference.remote.partner.interfaces import Interface, most_characters
from inference.remote.partner.wire import DONE, Events, Piece
from inference.remote.pause import ServerError

_LONGEST_S = 300.0
"""How long a text without a deadline may take: a server may stream for ever."""
_BATCH = 256
"""Read this many events before yielding to the event loop."""


class Writing:
    """The answer to a question so far. `run` it in a task, and look at it meanwhile."""

    def __init__(self, client: Client, interface: Interface, question: Question, deadline: float | None) -> None:
        self.question = question
        self.end = ""
        """Why it has ended: "stop", or "length" if it was cut."""
        self.first_ms = 0.0
        """The delay of the first text after the request; 0 before."""
        self._client, self._interface, self._deadline = client, interface, deadline
        self._answer = ""
        self._sure: list[tuple[int, tuple[float, ...]]] = []

    async def run(self, on_text: Callable[[], None]) -> None:
        """Receives the text; calls `on_text` when there is more. Raises ServerError, TimeoutError at the limit."""
        body = msgspec.json.encode(self._interface.body(self.question))
        events, began = Events(), time.monotonic()
        async with asyncio.timeout(_LONGEST_S):
            async with aclosing(self._client.stream(self._interface.path, body, self._deadline)) as parts:
                async for part in parts:
                    try:
                        await self._take(events.feed(part))
                    except AnswerError as error:
                        raise ServerError(
                            f"the server {self._client.url} answered what makes no sense: {error}"
                        ) from error
                    if self._answer and not self.first_ms:
                        self.first_ms = (time.monotonic() - began) * 1000
                    on_text()
                    if self.end:
                        break
        if not self._answer and not self._sure:
            raise ServerError(f"the server {self._client.url} ended its answer before it began; look at its log")
        self.end = self.end or "length"  # a stream without an end event may have broken off

    async def _take(self, events: list[bytes]) -> None:
        """Raises AnswerError."""
        for first in range(0, len(events), _BATCH):
            pieces = [self._interface.read(event) for event in events[first : first + _BATCH]]
            self._add([piece for piece in pieces if piece is not None])
            if self.end:
                return
            await asyncio.sleep(0)

    def _add(self, pieces: list[Piece]) -> None:
        length = len(self._answer)
        for piece in pieces:
            length += len(piece.text)
            if piece is not DONE:
                self._sure.append((length, piece.sure))
            self.end = self.end or piece.end
        most = most_characters(self.question)
        self._answer = (self._answer + "".join(piece.text for piece in pieces))[: most + 1]
        if self._interface.find(self._answer, self.question, False).is_closed:
            self.end = "stop"
        elif len(self._answer) > most:
            self.end = "length"

    @property
    def tokens(self) -> int:
        """The number of tokens so far, as far as known."""
        return sum(max(1, len(sure)) for _, sure in self._sure)

    @property
    def text(self) -> str:
        """The fill so far, after its required start; once it has ended, fitted to the file."""
        found = self._interface.find(self._answer, self.question, bool(self.end))
        text = self._answer[found.start : found.end]
        return self._interface.fitted(text, self.question, ended=bool(self.end))

    @property
    def sure(self) -> list[float]:
        """The probabilities of the fill's tokens, as far as known."""
        found = self._interface.find(self._answer, self.question, bool(self.end))
        return [value for end, values in self._sure if found.start < end <= found.end for value in values]

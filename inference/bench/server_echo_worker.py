"""A worker process that answers immediately: the real sockets, queue and messages, and no model.

`infill-ls bench server` uses it to measure the cost of everything but the model. Its fills mean nothing.
"""

import asyncio
import os
import sys
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, cast

from inference.messages import Candidate, Done, Hole, InfillRequest
from inference.serving import startup
from inference.serving.engine_thread import open_engine
from inference.serving.place import Place
from inference.worker import serve

if TYPE_CHECKING:  # it imports torch
    from inference.engine import Engine

ANSWER = "choose_{}(first, [second, total], default=first)"
"""The fill of every hole, after its required start; the number makes each answer new."""


class EchoEngine:
    """Fills holes without a model."""

    device = "none"
    context_tokens = 0

    def __init__(self, model: str) -> None:
        self.model = model
        self._numbers = count(1)

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> Iterator[Candidate | Done]:
        """One candidate and the end."""
        holes = [part for part in request.segments if isinstance(part, Hole)]
        texts = tuple(hole.starts_with + ANSWER.format(next(self._numbers)) for hole in holes)
        yield Candidate(request.id, texts, confidence=1.0)
        yield Done(request.id)

    def prepare(self) -> bool:
        return False


if __name__ == "__main__":
    arguments = startup.parse(sys.argv[1:])
    opener = partial(open_engine, lambda told, _: cast("Engine", EchoEngine(told.model)))
    place = Place(arguments.socket, arguments.transport)
    place.take()
    status = asyncio.run(serve(arguments, place, opener))
    os._exit(status)  # the engine's thread waits for work

"""A worker process that answers immediately: the real sockets, queue and messages, and no model.

`infill-ls bench server` uses it to measure the cost of everything but the model. Its fills mean nothing.
"""

import asyncio
import os
import sys
from collections.abc import Iterator
from itertools import count

from inference.messages import Candidate, Done, Draft, Hole, InfillRequest
from inference.serving import startup
from inference.serving.claim import Claim
from inference.worker import serve

ANSWER = "choose_{}(first, [second, total], default=first)"
"""The fill of every hole, after its required start; the number makes each answer new."""


class EchoInfiller:
    """Fills holes without a model."""

    device, dtype, context_tokens, note = "none", "none", 0, ""

    def __init__(self, model: str) -> None:
        self.model = model
        self._numbers = count(1)

    def infill(
        self, request: InfillRequest, *, deadline: float | None = None
    ) -> Iterator[Draft | Candidate | Done | None]:
        """One candidate and the end."""
        holes = [part for part in request.segments if isinstance(part, Hole)]
        texts = tuple(hole.starts_with + ANSWER.format(next(self._numbers)) for hole in holes)
        yield Candidate(request.id, texts, confidence=1.0)
        yield Done(request.id)


if __name__ == "__main__":
    arguments = startup.parse(sys.argv[1:])
    status = asyncio.run(serve(arguments, Claim(arguments.socket), lambda told, _: EchoInfiller(told.model)))
    os._exit(status)  # the engine's thread waits for work

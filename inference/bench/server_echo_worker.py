"""A worker whose engine answers at once: a real process with the real sockets, queue and messages, and no model.

With it `infill-ls bench server` measures what everything but the model costs. Not for use: its fills mean nothing.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from itertools import count

from inference.messages import Candidate, Done, Draft, Hole, InfillRequest
from inference.serving import listener, startup
from inference.serving.connection import Connection
from inference.serving.scheduler import Scheduler
from inference.serving.startup import WorkerArguments
from inference.serving.worker_service import Service

ANSWER = "choose_{}(first, [second, total], default=first)"
"""What every hole is filled with, behind what the fill must begin with; the number makes each answer a new one."""


class Echo:
    """An engine without a model."""

    device, dtype, context_tokens = "none", "none", 0

    def __init__(self, model: str) -> None:
        self.model = model
        self._numbers = count(1)

    def infill(
        self, request: InfillRequest, *, deadline: float | None = None
    ) -> Iterator[Draft | Candidate | Done | None]:
        """One candidate and the end, as a generator."""
        holes = [part for part in request.segments if isinstance(part, Hole)]
        texts = tuple(hole.starts_with + ANSWER.format(next(self._numbers)) for hole in holes)
        yield Candidate(request.id, texts, confidence=1.0)
        yield Done(request.id)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until told to end; takes the arguments of `inference.worker`."""
    return asyncio.run(_serve(startup.parse(argv)))


async def _serve(arguments: WorkerArguments) -> int:
    scheduler = Scheduler()
    service = Service(arguments, scheduler)

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Connection(service, reader, writer).serve()

    engine = Echo(arguments.model)
    opened = await listener.listen(arguments.socket, arguments.transport, greet)
    service.token = opened.token
    service.ready(engine)
    threading.Thread(target=scheduler.run, args=(engine,), name="engine", daemon=True).start()
    await service.ended.wait()
    opened.close()
    return service.exit_code


if __name__ == "__main__":
    status = main(sys.argv[1:])
    os._exit(status)  # the engine's thread waits for work

"""Prints a server's health, as one JSON object: `python -m inference.remote.probe --model URL --socket PATH`.

For `infill-ls doctor`: asks what a worker asks when it starts, and sends nothing from any file. A partner fills one
small example hole, to show what it can do. The arguments are those of a worker.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence

from inference.engine.errors import RequestError
from inference.messages import Candidate, Hole, InfillRequest, Text
from inference.models.family import ModelError
from inference.remote import registry, token
from inference.remote.served import ServedInfiller
from inference.serving import startup
from inference.serving.startup import WorkerArguments

LIMIT_S = 30.0
PARTNER_LIMIT_S = 50.0
"""The time limit for everything; a partner's server may still have to load its model."""
SEGMENTS = (Text("def mean(numbers):\n    return "), Hole(single_line=True), Text("\n\n\nprint(mean([1, 2, 3]))\n"))
"""The example hole and its surroundings."""


def main(argv: Sequence[str] | None = None) -> None:
    """Prints `{"model", "place", "token", "problem", "kind", "fill", "ms"}`.

    `token` is the token's origin, and `problem` is "" if there is none. The last three are for a partner: how it is
    asked, its fill of a hole, and the milliseconds it took.
    """
    print(json.dumps(asyncio.run(_look(startup.parse(argv)))))


async def _look(arguments: WorkerArguments) -> dict[str, str]:
    source = token.source(role=registry.role_of(arguments)) if arguments.sends_token else ""
    found = {"model": arguments.server_model or "", "place": "", "token": source, "problem": ""}
    found |= {"kind": "", "fill": "", "ms": ""}
    limit_s = PARTNER_LIMIT_S if arguments.partner else LIMIT_S
    try:
        async with asyncio.timeout(limit_s):
            return {**found, **await _asked(arguments)}
    except TimeoutError:
        return {**found, "problem": f"{arguments.model} has not answered for {limit_s:.0f} s; check that it is running"}
    except (ModelError, RequestError) as error:
        return {**found, "problem": str(error)}


async def _asked(arguments: WorkerArguments) -> dict[str, str]:
    """The server's answer. Raises ModelError and RequestError."""
    asked = await registry.connect(arguments, lambda *_: None)
    try:
        found = {"model": asked.model, "place": asked.device}
        return found | {"kind": asked.partner, **await _shown(asked)} if asked.partner else found
    finally:
        await asked.close()


async def _shown(asked: ServedInfiller) -> dict[str, str]:
    """Its fill for a small hole, and the time it takes. Raises RequestError."""
    began = time.monotonic()
    request = InfillRequest("probe", SEGMENTS, "python", "mean.py")
    texts = [event.texts[0] async for event in asked.infill(request) if isinstance(event, Candidate)]
    return {"fill": texts[0] if texts else "", "ms": f"{(time.monotonic() - began) * 1000:.0f}"}


if __name__ == "__main__":
    main(sys.argv[1:])

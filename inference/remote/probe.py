"""Prints how a server is, as one JSON object: `python -m inference.remote.probe --model URL --socket PATH`.

For `infill-ls doctor`: it asks what a worker asks when it starts, and sends nothing of any file. A partner fills one
small hole of its own, to show what it can do. The arguments are those of a worker.
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
from inference.remote.partner.infiller import PartnerInfiller
from inference.serving import startup
from inference.serving.startup import WorkerArguments

LIMIT_S, PARTNER_LIMIT_S = 30.0, 50.0
"""How long all of it may take; a partner's server may have its model still to load."""
BEFORE, AFTER = "def mean(numbers):\n    return ", "\n\n\nprint(mean([1, 2, 3]))\n"
"""What stands around the hole that is filled to show how."""


def main(argv: Sequence[str] | None = None) -> None:
    """Print `{"model", "place", "token", "problem", "kind", "fill", "ms"}`.

    `token` says where it is taken from, and `problem` "" is none. The last three are of a partner: how it is asked, and
    what it wrote into a hole, in how many milliseconds.
    """
    print(json.dumps(asyncio.run(_look(startup.parse(argv)))))


async def _look(arguments: WorkerArguments) -> dict[str, str]:
    source = token.source(place=registry.place_of(arguments)) if arguments.sends_token else ""
    found = {"model": arguments.server_model or "", "place": "", "token": source, "problem": ""}
    found |= {"kind": "", "fill": "", "ms": ""}
    limit_s = PARTNER_LIMIT_S if arguments.partner else LIMIT_S
    try:
        async with asyncio.timeout(limit_s):
            return {**found, **await _asked(arguments)}
    except TimeoutError:
        return {**found, "problem": f"{arguments.model} has not answered for {limit_s:.0f} s; see that it runs"}
    except (ModelError, RequestError) as error:
        return {**found, "problem": str(error)}


async def _asked(arguments: WorkerArguments) -> dict[str, str]:
    """What the server says. Raises ModelError and RequestError."""
    asked = await registry.connect(arguments, lambda *_: None)
    try:
        found = {"model": asked.model, "place": asked.device}
        return found | {"kind": asked.partner, **await _shown(asked)} if isinstance(asked, PartnerInfiller) else found
    finally:
        await asked.close()


async def _shown(asked: PartnerInfiller) -> dict[str, str]:
    """What it writes into a small hole, and how long that takes. Raises RequestError."""
    began = time.monotonic()
    request = InfillRequest("probe", (Text(BEFORE), Hole(single_line=True), Text(AFTER)), "python", "mean.py")
    texts = [event.texts[0] async for event in asked.infill(request) if isinstance(event, Candidate)]
    return {"fill": texts[0] if texts else "", "ms": f"{(time.monotonic() - began) * 1000:.0f}"}


if __name__ == "__main__":
    main(sys.argv[1:])

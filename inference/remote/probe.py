"""Prints how a server is, as one JSON object: `python -m inference.remote.probe --model URL --socket PATH`.

For `infill-ls doctor`: it asks what a worker asks when it starts, and sends nothing of any file. The arguments are
those of a worker.
"""

import asyncio
import json
import sys
from collections.abc import Sequence

from inference.models.family import ModelError
from inference.remote import token
from inference.remote.vllm import connect
from inference.serving import startup
from inference.serving.startup import WorkerArguments

LIMIT_S = 30.0


def main(argv: Sequence[str] | None = None) -> None:
    """Print `{"model", "place", "token", "problem"}`; `token` says where it is taken from, and `problem` "" is none."""
    print(json.dumps(asyncio.run(_look(startup.parse(argv)))))


async def _look(arguments: WorkerArguments) -> dict[str, str]:
    found = {"model": arguments.server_model or "", "place": "", "token": token.source(), "problem": ""}
    try:
        async with asyncio.timeout(LIMIT_S):
            infiller = await connect(arguments, lambda *_: None, token=token.read())
    except TimeoutError:
        return {**found, "problem": f"{arguments.model} has not answered for {LIMIT_S:.0f} s; see that it runs"}
    except ModelError as error:
        return {**found, "problem": str(error)}
    await infiller.close()
    return {**found, "model": infiller.model, "place": infiller.device}


if __name__ == "__main__":
    main(sys.argv[1:])

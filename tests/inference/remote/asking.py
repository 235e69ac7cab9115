"""Shared by the tests of the vLLM client: its connection, and the results of a request."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from inference.messages import Candidate, Done, Draft, Hole, InfillRequest, Text
from inference.remote import registry
from inference.remote.served import ServedInfiller
from inference.serving.startup import WorkerArguments
from tests.inference.loaded import TWIN

BEFORE = "import os\n\n\ndef read(path):\n    with open(path) as file:\n        return "
AFTER = "\n\n\ndef write(path, text):\n    with open(path, 'w') as file:\n        file.write(text)\n"


@asynccontextmanager
async def infiller_at(
    url: str, tokenizer: Path | None = TWIN, *, limit_s: float | None = None, **options: str
) -> AsyncIterator[ServedInfiller]:
    """An infiller that asks the server at `url`, which says within `limit_s` what it serves."""
    files = {"socket": Path("w.sock"), "log": Path("w.log")}
    arguments = WorkerArguments(url, **files, server_tokenizer=str(tokenizer) if tokenizer else None, **options)
    found = await registry.connect(arguments, lambda _share, _what: None, limit_s=limit_s)
    try:
        yield found
    finally:
        await found.close()


def one_hole(**hole: object) -> InfillRequest:
    return request(Text(BEFORE), Hole(**({"single_line": True} | hole)), Text(AFTER))  # type: ignore[arg-type]


def request(*segments: Text | Hole, **fields: object) -> InfillRequest:
    return InfillRequest("r", segments, **({"seed": 1, "max_steps": 3} | fields))  # type: ignore[arg-type]


async def answered(
    infiller: ServedInfiller, asked: InfillRequest, *, within_s: float | None = None
) -> tuple[list[Draft], list[Candidate], Done]:
    deadline = None if within_s is None else time.monotonic() + within_s
    work = infiller.infill(asked, deadline=deadline)
    events = [event async for event in work]
    await work.aclose()
    done = events[-1]
    assert isinstance(done, Done)
    drafts = [event for event in events if isinstance(event, Draft)]
    return drafts, [event for event in events if isinstance(event, Candidate)], done


async def fills(infiller: ServedInfiller, asked: InfillRequest) -> list[tuple[str, ...]]:
    return [candidate.texts for candidate in (await answered(infiller, asked))[1]]

"""Shared by the tests of the clients of servers: their connections, and their requests and results."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from inference.messages import Done, Draft, FilledHoles, Hole, InfillRequest, PinnedText, Request
from inference.remote import server_backend
from inference.remote.server_backend import RemoteBackend
from inference.serving.scheduler import Job
from inference.serving.startup import WorkerArguments
from tests.inference.loaded import TWIN
from tests.partner_server import KINDS

BEFORE = "import math\n\n\ndef mean(numbers):\n    return "
AFTER = "\n\n\nprint(mean([1, 2]))\n"
ANSWER = "sum(numbers) / len(numbers)"
KIND_OF = {"fim": "qwen2.5-coder", "suffix": "suffix", "infill": "infill", "chat": "chat"}
"""What the client calls each API of the test server."""

assert set(KIND_OF) == set(KINDS)


def arguments(url: str, **options: object) -> WorkerArguments:
    return WorkerArguments(url, socket=Path("w.sock"), log=Path("w.log"), **options)  # type: ignore[arg-type]


@asynccontextmanager
async def served_at(url: str, *, limit_s: float | None = None, **options: object) -> AsyncIterator[Any]:
    """An infiller that asks the server at `url`, which says within `limit_s` what it serves."""
    found = await server_backend.connect(arguments(url, **options), lambda _share, _what: None, limit_s=limit_s)
    try:
        yield found
    finally:
        await found.close()


def infiller_at(url: str, tokenizer: Path | None = TWIN, **options: Any) -> AbstractAsyncContextManager[Any]:
    """One that asks a vLLM."""
    return served_at(url, server_tokenizer=str(tokenizer) if tokenizer else None, **options)


def partner_at(url: str, kind: str = "auto", **options: Any) -> AbstractAsyncContextManager[Any]:
    return served_at(url, partner=kind, **options)


def one_hole(*, drafts: bool = False, candidates: int = 1, **hole: object) -> InfillRequest:
    part = Hole(**({"single_line": True} | hole))  # type: ignore[arg-type]
    return request(PinnedText(BEFORE), part, PinnedText(AFTER), drafts=drafts, candidates=candidates)


def request(*segments: PinnedText | Hole, **fields: object) -> InfillRequest:
    known = {"seed": 1, "max_steps": 3, "language": "python", "path": "mean.py"}
    return InfillRequest("r", segments, **(known | fields))  # type: ignore[arg-type]


def job(asked: Request, *, within_s: float | None = None) -> Job:
    limit_ms = None if within_s is None else int(1000 * within_s)
    return Job(msgspec.structs.replace(asked, deadline_ms=limit_ms), lambda *_: None)


async def answered(
    infiller: RemoteBackend, asked: InfillRequest, *, within_s: float | None = None
) -> tuple[list[Draft], list[FilledHoles], Done]:
    events = [event async for event in infiller.replies(job(asked, within_s=within_s))]
    done = events[-1]
    assert isinstance(done, Done)
    drafts = [event for event in events if isinstance(event, Draft)]
    return drafts, [event for event in events if isinstance(event, FilledHoles)], done


async def fills(infiller: RemoteBackend, asked: InfillRequest) -> list[tuple[str, ...]]:
    return [candidate.texts for candidate in (await answered(infiller, asked))[1]]

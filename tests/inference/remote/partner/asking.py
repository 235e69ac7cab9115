"""Shared by the tests of the partner's client: its connection, and its requests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from inference.messages import Hole, InfillRequest, Text
from inference.remote import registry
from inference.remote.partner.filling import PartnerInfiller
from inference.serving.startup import WorkerArguments
from tests.partner_server import KINDS

BEFORE = "import math\n\n\ndef mean(numbers):\n    return "
AFTER = "\n\n\nprint(mean([1, 2]))\n"
ANSWER = "sum(numbers) / len(numbers)"
KIND_OF = {"fim": "qwen2.5-coder", "suffix": "suffix", "infill": "infill", "chat": "chat"}
"""What the client calls each interface of the test server."""

assert set(KIND_OF) == set(KINDS)


def arguments(url: str, kind: str = "auto", **options: object) -> WorkerArguments:
    files = {"socket": Path("w.sock"), "log": Path("w.log")}
    return WorkerArguments(**{**files, "model": url, "partner": kind, **options})  # type: ignore[arg-type]


@asynccontextmanager
async def partner_at(
    url: str, kind: str = "auto", *, limit_s: float | None = None, **options: object
) -> AsyncIterator[PartnerInfiller]:
    found = await registry.connect(arguments(url, kind, **options), lambda _share, _what: None, limit_s=limit_s)
    assert isinstance(found, PartnerInfiller)
    try:
        yield found
    finally:
        await found.close()


def one_hole(*, drafts: bool = False, candidates: int = 1, **hole: object) -> InfillRequest:
    part = Hole(**({"single_line": True} | hole))  # type: ignore[arg-type]
    return request(Text(BEFORE), part, Text(AFTER), drafts=drafts, candidates=candidates)


def request(*segments: Text | Hole, **fields: object) -> InfillRequest:
    return InfillRequest("r", segments, **({"language": "python", "path": "mean.py"} | fields))  # type: ignore[arg-type]

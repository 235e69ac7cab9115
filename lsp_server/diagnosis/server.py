"""Checks a server that has a model, through its worker: where text goes, whether it answers, whose token it gets."""

import asyncio
import time
from collections.abc import Iterator

from inference.messages import Hole, InfillRequest, Status, Text, WorkerState
from inference.remote import address, token
from lsp_server.diagnosis.check import Check, Grade
from lsp_server.worker import WorkerClient, WorkerFailure, WorkerOptions
from lsp_server.worker.client import Deadline
from lsp_server.worker.options import problem_of

_LIMIT_MS = 60_000
"""The time limit for everything; a partner's server may still have to load its model."""
_EXAMPLE = (Text("def mean(numbers):\n    return "), Hole(single_line=True), Text("\n\n\nprint(mean([1, 2, 3]))\n"))
_WAYS = {
    "suffix": "/v1/completions with a suffix",
    "infill": "llama.cpp's /infill",
    "chat": "/v1/chat/completions, which can see a draft",
}
_FAMILY = "/v1/completions with the tokens of {}"


def examine_server(options: WorkerOptions) -> Iterator[Check]:
    """Examines the server of `options`. Takes as long as the server, at most a minute."""
    name, of = ("partner", "partner ") if options.partner else ("server", "")
    if unusable := problem_of(options):
        yield Check.told(name, Grade.FAIL, unusable)
        return
    at = address.parse(options.model)
    yield Check(f"{of}text goes to", *_way(at))
    role = address.PARTNER if options.partner else address.MODEL
    source = token.source(role=role) if options.sends_token else ""
    yield Check(f"{name} token", Grade.OK, f"from {source}" if source else "none")
    try:
        status, fills = asyncio.run(_ask(options))
    except WorkerFailure as failure:
        yield Check.told(name, Grade.FAIL, str(failure))
        return
    except TimeoutError:
        problem = f"{at.url} has not answered for {_LIMIT_MS / 1000:.0f} s; check that it is running"
        yield Check.told(name, Grade.FAIL, problem)
        return
    kind = status.partner
    how = f", asked by {_WAYS.get(kind, _FAMILY.format(kind))}" if options.partner else ""
    yield Check(name, Grade.OK, f"{status.device} answers and serves {status.model}{how}")
    if fills:
        yield fills


async def _ask(options: WorkerOptions) -> tuple[Status, Check | None]:
    """What the worker says of its server, and whether a partner fills the example hole. Ends a worker that did not run
    before. Raises WorkerFailure and TimeoutError.
    """
    deadline = Deadline(_LIMIT_MS)
    async with WorkerClient(options, name="doctor") as worker:
        ran = await worker.status() is not None
        try:
            await worker.load(deadline)
            status = worker.last_status or Status(WorkerState.READY)
            return status, await _fill(worker, deadline) if options.partner else None
        finally:
            if not ran:
                await worker.shut_down()


async def _fill(worker: WorkerClient, deadline: Deadline) -> Check:
    """The partner's fill of the example hole."""
    began = time.monotonic()
    answer = await worker.ask(InfillRequest("doctor", _EXAMPLE, "python", "mean.py"), deadline=deadline)
    ms = (time.monotonic() - began) * 1000
    if not answer.candidates or not answer.candidates[0].texts[0]:
        advice = "check that the model knows code, or set partner.kind to ask it in another way"
        return Check("partner fills", Grade.WARN, "nothing for a function without its result", advice)
    return Check("partner fills", Grade.OK, f"`return {answer.candidates[0].texts[0]}` in {ms:.0f} ms")


def _way(at: address.Address) -> tuple[Grade, str, str]:
    if at.is_encrypted:
        return Grade.OK, f"{at.url}, encrypted", ""
    if at.is_here:
        return Grade.OK, f"{at.url}, on this machine", ""
    return Grade.WARN, f"{at.url}, unencrypted: anybody on the way can read your code", "use https, or a tunnel"

"""Checks a model through its worker: whether it loads or its server answers, where text goes, whose token it gets; and
says what to do.
"""

import asyncio
import time
from collections.abc import Iterator
from shutil import which

from inference.messages import Hole, InfillRequest, Status, Text, WorkerOptions, WorkerState
from inference.models.catalogue import AUTO, EMBEDDED, FIRST
from inference.remote import address, token
from lsp_server.diagnosis.models import Tell, downloads_of_others, or_use
from lsp_server.diagnosis.workers import Check, Grade, describe_loading, describe_status
from lsp_server.settings.launch import is_remote, problem_of, role_of
from lsp_server.worker import WorkerClient, WorkerFailure
from lsp_server.worker.client import Deadline
from lsp_server.worker.failure import StillLoadingError

_LIMIT_MS = 60_000
"""The time limit for everything; a partner's server may still have to load its model."""
_EXAMPLE = (Text("def mean(numbers):\n    return "), Hole(single_line=True), Text("\n\n\nprint(mean([1, 2, 3]))\n"))


def examine_worker(options: WorkerOptions, tell: Tell) -> Iterator[Check]:
    """What the worker of `options` says once it has its model. `tell` receives what it is doing. Takes as long as
    loading, at most a minute.
    """
    remote = is_remote(options)
    name = "edit model" if options.edits else "partner" if options.partner else "server" if remote else "model"
    if unusable := problem_of(options):
        yield Check.told(name, Grade.FAIL, unusable)
        return
    if remote:
        yield from _destination(options, name)
    try:
        status, fills = asyncio.run(_ask(options, tell))
    except (WorkerFailure, TimeoutError) as failure:
        grade = Grade.WARN if isinstance(failure, StillLoadingError) else Grade.FAIL
        late = f"{options.model} did not answer within {_LIMIT_MS / 1000:.0f} s; check that it is running"
        yield Check.told(name, grade, str(failure) or late)
        return
    advice = ""
    if options.model == AUTO and status.model == EMBEDDED:
        better = f"run: infill-ls models pull {status.better or FIRST}"
        advice = f"{better}{or_use(downloads_of_others(), status.device)}"
    yield Check(name, Grade.WARN if status.note else Grade.OK, describe_status(status), advice)
    if status.device == "cpu" and which("nvidia-smi"):
        yield Check("device", Grade.WARN, "cpu", "there is an NVIDIA driver: install torch's CUDA build to use the GPU")
    if fills:
        yield fills


def _destination(options: WorkerOptions, name: str) -> Iterator[Check]:
    """Where text goes, and whose token goes with it."""
    at = address.parse(options.model)
    goes = f"{name} text goes to".removeprefix("server ")
    if at.is_encrypted or at.is_here:
        yield Check(goes, Grade.OK, f"{at.url}, {'encrypted' if at.is_encrypted else 'on this machine'}")
    else:
        risk = f"{at.url}, unencrypted: anyone on the network can read your code"
        yield Check(goes, Grade.WARN, risk, "use https, or a tunnel")
    source = token.source(role=role_of(options)) if options.sends_token else ""
    yield Check(f"{name} token", Grade.OK, f"from {source}" if source else "none")


async def _ask(options: WorkerOptions, tell: Tell) -> tuple[Status, Check | None]:
    """What the worker says, and whether a partner fills the example hole. Ends a worker that did not run before. Raises
    WorkerFailure and TimeoutError.
    """
    deadline = Deadline(_LIMIT_MS)
    async with WorkerClient(options, name="doctor", on_status=lambda status: tell(describe_loading(status))) as worker:
        ran = await worker.status() is not None
        try:
            await worker.load(deadline)
            status = worker.last_status or Status(WorkerState.READY)
            return status, await _fill(worker, deadline) if options.partner else None
        finally:
            if not ran:
                await worker.shut_down()


async def _fill(worker: WorkerClient, deadline: Deadline) -> Check:
    began = time.monotonic()
    answer = await worker.ask(InfillRequest("doctor", _EXAMPLE, "python", "mean.py"), deadline=deadline)
    ms = (time.monotonic() - began) * 1000
    if not answer.candidates or not answer.candidates[0].texts[0]:
        advice = "check that the model knows code, or set partner.kind to prompt it differently"
        return Check("partner fills", Grade.WARN, "no fill for a function that lacks its result", advice)
    return Check("partner fills", Grade.OK, f"`return {answer.candidates[0].texts[0]}` in {ms:.0f} ms")

"""Checks this machine for the needs of infill-ls, and a model through its worker: whether it loads or its server
answers, where text goes, whose token it gets; and says what to do.
"""

import asyncio
import os
import platform
import re
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from shutil import which

from inference.messages import Hole, InfillRequest, Status, Text, WorkerOptions, WorkerState
from inference.models import catalogue, edit_prompts
from inference.models.catalogue import AUTO, EMBEDDED, FIRST
from inference.remote import address, token
from inference.remote.private import why_not_private
from lsp_server.diagnosis.models import Tell, downloads_of_others, or_use
from lsp_server.diagnosis.workers import Check, Grade, describe_loading, describe_status, size, survey
from lsp_server.worker import WorkerClient, WorkerFailure
from lsp_server.worker.client import Deadline
from lsp_server.worker.failure import StillLoadingError
from lsp_server.worker.options import is_remote, problem_of
from lsp_server.worker.paths import WorkerPaths, paths_of

_ERROR = re.compile(r"Error\b|^Fatal|cannot")
_LOGGED = re.compile(r"\b(ERROR|CRITICAL)\b")
_TAIL_BYTES = 200_000


def examine(options: WorkerOptions, tell: Tell) -> Iterator[Check]:
    """Every check of this machine, or of the server that has the model. `tell` receives what it is doing."""
    paths = paths_of(options)
    yield Check("infill-ls", Grade.OK, version("infill-ls"))
    yield Check("python", Grade.OK, f"{platform.python_version()} at {sys.executable}")
    yield _worker()
    yield from examine_worker(options, tell)
    yield Check("socket", Grade.OK, str(paths.socket))
    yield _folder(paths)
    yield log_of(paths)


def _worker() -> Check:
    surveyed = asyncio.run(survey("infill-ls doctor"))
    workers = surveyed.running
    if surveyed.silent:
        return Check.told("worker", Grade.FAIL, str(surveyed.silent[0]))
    if not workers:
        return Check("worker", Grade.OK, "none is running; the first request starts one")
    found = "; ".join(f"{worker.status.state}: {describe_status(worker.status)}" for worker in workers)
    others = [worker for worker in workers if worker.release != version("infill-ls")]
    if others:
        advice = f"one runs release {others[0].release}: restart the editor that uses it"
        return Check("worker", Grade.WARN, found, advice)
    if any(worker.status.note for worker in workers):
        return Check("worker", Grade.WARN, found, "follow its note")
    return Check("worker", Grade.OK, found)


def _folder(paths: WorkerPaths) -> Check:
    if trouble := why_not_private(paths.folder):
        return Check.told("runtime folder", Grade.FAIL, trouble)
    state = "private" if paths.folder.is_dir() else "does not exist yet"
    return Check("runtime folder", Grade.OK, f"{paths.folder} ({state})")


def log_of(paths: WorkerPaths) -> Check:
    """The worker's log, whether it is writable, and the last failure there."""
    found = str(paths.log) if paths.log.is_file() else f"{paths.log} (does not exist yet)"
    if error := _last_line(paths.errors, _ERROR):
        return Check("log", Grade.WARN, f"{found}; the last worker reported: {error}", f"read {paths.errors}")
    if failure := _last_line(paths.log, _LOGGED):
        return Check("log", Grade.WARN, f"{found}; its last failure: {failure}", f"read {paths.log}")
    folder = next(each for each in paths.log.parents if each.exists())
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        found = f"{paths.log} cannot be written; fills still work"
        return Check("log", Grade.WARN, found, f"make {folder} a folder that you can write to")
    return Check("log", Grade.OK, found)


def _last_line(file: Path, wanted: re.Pattern[str]) -> str:
    """The last line near the end of a file that reports an error; libraries also write warnings."""
    if not file.is_file():  # opening a pipe would block
        return ""
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - _TAIL_BYTES))
            lines = stream.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line[:200] for line in reversed(lines) if wanted.search(line)), "")


_LIMIT_MS = 60_000
"""The time limit for everything; a partner's server may still have to load its model."""
_EXAMPLE = (Text("def mean(numbers):\n    return "), Hole(single_line=True), Text("\n\n\nprint(mean([1, 2, 3]))\n"))
_WAYS = {
    "suffix": "/v1/completions with a suffix",
    "infill": "llama.cpp's /infill",
    "chat": "/v1/chat/completions, which can see a draft",
}
_FAMILY = "/v1/completions with the tokens of {}"


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
    except StillLoadingError as slow:
        yield Check.told(name, Grade.WARN, str(slow))
    except WorkerFailure as failure:
        yield Check.told(name, Grade.FAIL, str(failure))
    except TimeoutError:
        problem = f"{options.model} did not answer within {_LIMIT_MS / 1000:.0f} s; check that it is running"
        yield Check.told(name, Grade.FAIL, problem)
    else:
        if options.edits:
            yield _of_edit_model(status)
        else:
            yield from _of_server(options, status, fills, name) if remote else _of_model(options, status)


def _destination(options: WorkerOptions, name: str) -> Iterator[Check]:
    """Where text goes, and whose token goes with it."""
    at = address.parse(options.model)
    of, role = ("partner ", address.PARTNER) if options.partner else ("", address.MODEL)
    of, role = ("edits: ", address.EDITS) if options.edits else (of, role)
    yield Check(f"{of}text goes to", *_way(at))
    source = token.source(role=role) if options.sends_token else ""
    yield Check(f"{name} token", Grade.OK, f"from {source}" if source else "none")


def _of_server(options: WorkerOptions, status: Status, fills: Check | None, name: str) -> Iterator[Check]:
    how = f", asked by {_WAYS.get(status.partner, _FAMILY.format(status.partner))}" if options.partner else ""
    yield Check(name, Grade.OK, f"{status.device} answers and serves {status.model}{how}")
    if fills:
        yield fills


def _of_edit_model(status: Status) -> Check:
    """Its kind, licence, memory, and how long a rewrite takes by the speed of its first passes."""
    entry = catalogue.find(status.model)
    words = [f"{status.model}: {status.choice}" if status.choice else status.model, f"asked as {status.edits}"]
    words += (
        [f"served by {status.device}"]
        if status.server
        else [
            f"licence: {entry.licence if entry else 'see where you got it'}",
            f"{status.device} {status.dtype}, {size(status.memory_bytes + status.device_memory_bytes)} of memory",
        ]
    )
    if status.token_ms and status.prompt_token_ms:
        words.append(f"a rewrite in about {edit_prompts.rewrite_s(status.token_ms, status.prompt_token_ms):.1f} s")
    return Check("edit model", Grade.WARN if status.note else Grade.OK, ", ".join(words), status.note)


def _of_model(options: WorkerOptions, status: Status) -> Iterator[Check]:
    """The model on this machine, why it was chosen, and a better one where the embedded one must do."""
    advice = status.note
    if options.model == AUTO and status.model == EMBEDDED:
        better = f"run: infill-ls models pull {status.better or FIRST}"
        advice = f"{better}{or_use(downloads_of_others(), status.device)}"
    found = f"{status.model}: {status.choice}" if status.choice else status.model
    yield Check("model", Grade.WARN if status.note else Grade.OK, found, advice)
    if status.device == "cpu" and which("nvidia-smi"):
        yield Check("device", Grade.WARN, "cpu", "there is an NVIDIA driver: install torch's CUDA build to use the GPU")
    else:
        yield Check("device", Grade.OK, f"{status.device} {status.dtype}, {size(status.memory_bytes)} of memory")


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


def _way(at: address.Address) -> tuple[Grade, str, str]:
    if at.is_encrypted:
        return Grade.OK, f"{at.url}, encrypted", ""
    if at.is_here:
        return Grade.OK, f"{at.url}, on this machine", ""
    return Grade.WARN, f"{at.url}, unencrypted: anyone on the network can read your code", "use https, or a tunnel"

"""Checks this machine for the needs of infill-ls, and says what to do."""

import asyncio
import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import psutil

from inference.messages import WorkerOptions
from inference.remote.private import why_not_private
from lsp_server.diagnosis.check import Check, Grade
from lsp_server.diagnosis.models import Tell
from lsp_server.diagnosis.worker import examine_worker
from lsp_server.diagnosis.workers import describe_status, size
from lsp_server.worker.options import is_remote
from lsp_server.worker.paths import WorkerPaths, paths_of
from lsp_server.worker.survey import survey

ENOUGH_BYTES = 1_000_000_000
"""The memory of a worker with the embedded model, torch included."""
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
    if not is_remote(options):
        yield _memory()
    yield Check("socket", Grade.OK, str(paths.socket))
    yield _folder(paths)
    yield log_of(paths)


def _memory() -> Check:
    memory = psutil.virtual_memory()
    found = f"{size(memory.total)}, {size(memory.available)} available"
    if memory.available < ENOUGH_BYTES:
        return Check("memory", Grade.WARN, found, f"the worker needs about {size(ENOUGH_BYTES)}: close other programs")
    return Check("memory", Grade.OK, found)


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

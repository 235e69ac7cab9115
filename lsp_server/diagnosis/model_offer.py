"""Whether this machine can run a better model than the embedded one; a negative answer is cached for some days."""

import asyncio
import hashlib
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import which
from typing import Any, NamedTuple

import platformdirs
import psutil

from inference.messages import WorkerOptions
from inference.models.catalogue import EMBEDDED
from lsp_server.diagnosis.models import offer
from lsp_server.diagnosis.probe import PROBE_S, probe_words, read_probe
from lsp_server.worker.paths import APP, FOLDER_VARIABLE

TOLD = "told-of-models"
"""Exists once a user has been told about models."""
_REMEMBERED_S = 7 * 86_400
_SHARED_S = 10.0
"""Requests within this time of each other share an answer: checking takes seconds of a processor."""
_PACKAGES = ("infill-ls", "torch", "bitsandbytes", "mlx", "mlx-vlm")


class ModelOffer(NamedTuple):
    """`offer` as `models.offer` gives it, or None; `problem`: why the machine could not be checked."""

    offer: dict[str, Any] | None
    problem: str = ""


class MachineLook:
    """Checks this machine for the clients of one server, one process at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._latest: tuple[float, Path, ModelOffer] | None = None

    async def look(self, options: WorkerOptions, *, refresh: bool) -> ModelOffer:
        """The offer for this machine. Without `refresh` it may come from the cache. Cancelling leaves no process."""
        memory = _memory(options)
        if not refresh and _is_fresh(memory):
            return ModelOffer(None)
        async with self._turn:
            if self._latest and self._latest[1] == memory and time.monotonic() - self._latest[0] < _SHARED_S:
                return self._latest[2]
            found = await _probed(options)
            self._latest = time.monotonic(), memory, found
        if not found.offer:
            _remember(memory)
        return found


async def _probed(options: WorkerOptions) -> ModelOffer:
    nothing, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE  # ours is the editor's
    words = probe_words(options)
    process = await asyncio.create_subprocess_exec(*words, stdin=nothing, stdout=pipe, stderr=pipe)
    try:
        output, errors = await asyncio.wait_for(process.communicate(), PROBE_S)
        found = read_probe(process.returncode, output.decode(errors="replace"), errors.decode(errors="replace"))
    except (OSError, ValueError, TimeoutError, subprocess.SubprocessError) as error:
        return ModelOffer(None, str(error) or f"no answer in {PROBE_S:.0f} s")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if not found["catalogue"]:
        return ModelOffer(None, found["device_problem"] or found.get("torch_problem", "torch is missing"))
    return ModelOffer(offer(found["catalogue"]) if found["model"] == EMBEDDED else None)


def _memory(options: WorkerOptions) -> Path:
    """Exists if nothing better was found, by this installation on this machine."""
    parts = [sys.prefix, *map(_version, _PACKAGES), platform.node(), psutil.virtual_memory().total, options.device]
    parts += [which("nvidia-smi"), os.environ.get("CUDA_VISIBLE_DEVICES")]
    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    return _folder() / f"no-better-model-{key}"


def _folder() -> Path:
    chosen = os.environ.get(FOLDER_VARIABLE)
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path(APP, appauthor=False)


def is_first_time() -> bool:
    """Whether to tell this user about models; True once, unless that cannot be recorded."""
    memory = _folder() / TOLD
    if memory.exists():
        return False
    _remember(memory)
    return True


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _is_fresh(memory: Path) -> bool:
    try:
        return abs(time.time() - memory.stat().st_mtime) < _REMEMBERED_S
    except OSError:
        return False


def _remember(memory: Path) -> None:
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.touch()
    except OSError:
        pass  # it is looked for again at the next start

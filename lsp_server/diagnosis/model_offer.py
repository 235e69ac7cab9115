"""Whether this machine runs a better model than the embedded one, for an editor that tells a new user once.

To look at the machine takes seconds, for torch is imported. That there is nothing better is remembered for some days,
for this installation on this machine.
"""

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

from lsp_server.diagnosis.machine import PROBE_S, probe_words, read_probe
from lsp_server.diagnosis.models import offer
from lsp_server.worker.paths import APP, FOLDER_VARIABLE, WorkerOptions

_REMEMBERED_S = 7 * 86_400
_PACKAGES = ("infill-ls", "torch", "bitsandbytes", "mlx", "mlx-vlm")


class Answer(NamedTuple):
    """`offer` as `models.offer` has it, or None; `problem`: why the machine could not be looked at."""

    offer: dict[str, Any] | None
    problem: str = ""


async def look(options: WorkerOptions, *, anew: bool) -> Answer:
    """The offer for this machine. Not `anew`: what is remembered counts. Cancelled, it leaves no process behind."""
    memory = _memory(options)
    if not anew and _is_fresh(memory):
        return Answer(None)
    found = await _probed(options)
    if not found.offer:
        _remember(memory)
    return found


async def _probed(options: WorkerOptions) -> Answer:
    nothing, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE  # ours is the editor's
    words = probe_words(options)
    process = await asyncio.create_subprocess_exec(*words, stdin=nothing, stdout=pipe, stderr=pipe)
    try:
        output, errors = await asyncio.wait_for(process.communicate(), PROBE_S)
        found = read_probe(process.returncode, output.decode(errors="replace"), errors.decode(errors="replace"))
    except (OSError, ValueError, TimeoutError, subprocess.SubprocessError) as error:
        return Answer(None, str(error) or f"no answer in {PROBE_S:.0f} s")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if not found["catalogue"]:
        return Answer(None, found["device_problem"] or found.get("torch_problem", "torch is missing"))
    return Answer(offer(found["catalogue"]))


def _memory(options: WorkerOptions) -> Path:
    """The file that is there where nothing better was found, by this installation on this machine."""
    parts = [sys.prefix, *map(_version, _PACKAGES), platform.node(), psutil.virtual_memory().total, options.device]
    parts += [which("nvidia-smi"), os.environ.get("CUDA_VISIBLE_DEVICES")]
    key = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    chosen = os.environ.get(FOLDER_VARIABLE)
    folder = Path(chosen).expanduser() if chosen else platformdirs.user_cache_path(APP, appauthor=False)
    return folder / f"no-better-model-{key}"


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

"""Check what this machine has of what infill-ls needs, and say what to do about the rest.

Starts no worker, loads no model.
"""

import asyncio
import json
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import which
from typing import Any

import psutil

from inference.models import extras
from inference.models.catalogue import EMBEDDED
from inference.models.extras import shown
from lsp_server.diagnosis.check import Check, Verdict
from lsp_server.diagnosis.models import best_of, next_step
from lsp_server.diagnosis.server import examine_server
from lsp_server.diagnosis.workers import describe_status, size
from lsp_server.worker.paths import WorkerOptions, WorkerPaths, paths_of, why_not_private
from lsp_server.worker.survey import survey

PROBE_S = 120.0
"""How long the probe may take; it imports torch, which takes long from a cold disk."""
ENOUGH_BYTES = 1_000_000_000
"""What a worker with the embedded model needs, torch included."""
_ERROR = re.compile(r"Error\b|^Fatal|cannot")
_LOGGED = re.compile(r"\b(ERROR|CRITICAL)\b")
_TAIL_BYTES = 200_000
PACKAGES = ("torch", "transformers", "pygls", "tree-sitter")
REMOTE_PACKAGES = ("tokenizers", "httpx2", "pygls", "tree-sitter")
_INSTALL_FOUR_BIT = f"install it: {shown(extras.install('4bit'))}"
_REINSTALL = f"install it again: {shown(extras.reinstall())}"


def examine(options: WorkerOptions) -> list[Check]:
    """Every check, in the order in which things depend on each other. Takes seconds: torch is asked, in a process.

    Where a server has the model, that is asked how it is, and what would compute on this machine is not looked at.
    """
    paths = paths_of(options)
    remote = options.is_remote
    return [
        _python(),
        *(_package(name) for name in (REMOTE_PACKAGES if remote else PACKAGES)),
        *(examine_server(options) if remote else _probed(options)),
        *(() if remote else (_memory(),)),
        _worker(),
        _socket(paths),
        _folder(paths),
        _log(paths),
    ]


def _python() -> Check:
    return Check("python", Verdict.OK, f"{platform.python_version()} at {sys.executable}")


def _package(name: str) -> Check:
    try:
        return Check(name, Verdict.OK, version(name))
    except PackageNotFoundError:
        return Check(name, Verdict.FAIL, "missing", _REINSTALL)


def _probed(options: WorkerOptions) -> Iterator[Check]:
    """What only torch and the engine can tell."""
    if options.problem:
        words, _, advice = options.problem.partition("; ")
        yield Check("model", Verdict.FAIL, words, advice)
        return
    try:
        found = probe(options)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        yield Check("engine", Verdict.FAIL, f"it cannot be asked: {error}", _REINSTALL)
        return
    if problem := found.get("torch_problem"):
        yield Check("engine", Verdict.FAIL, f"torch cannot be imported: {problem}", _REINSTALL)
    yield _device(found, options)
    yield _model(found, options)
    yield from (runs(needs, options) for needs in found["needs"])
    if found["catalogue"]:
        yield best_here(found["catalogue"], options)


def probe(options: WorkerOptions) -> dict[str, Any]:
    """What `inference.serving.probe` prints. Raises OSError, ValueError or subprocess.SubprocessError."""
    words, nothing = probe_words(options), subprocess.DEVNULL
    done = subprocess.run(words, stdin=nothing, capture_output=True, text=True, timeout=PROBE_S, check=False)
    return read_probe(done.returncode, done.stdout, done.stderr)


def probe_words(options: WorkerOptions) -> list[str]:
    """The command that looks at this machine."""
    words = [sys.executable, "-P", "-m", "inference.serving.probe", "--model", options.resolved().model]
    words += ["--device", options.device] if options.device else []
    words += ["--dtype", options.dtype] if options.dtype else []
    return words


def read_probe(status: int | None, output: str, errors: str) -> dict[str, Any]:
    """What that command has found. Raises ValueError where it has failed."""
    if status or not output.strip():
        raise ValueError((errors.strip().splitlines() or ["no output"])[-1])
    found: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return found


def _device(found: dict[str, Any], options: WorkerOptions) -> Check:
    if problem := found["device_problem"]:
        words, _, advice = problem.partition("; ")
        return Check("device", Verdict.FAIL, words, advice or "leave out --device and --dtype to let the worker choose")
    devices = ", ".join(_describe_device(device) for device in found["devices"])
    if devices:
        return Check("device", Verdict.OK, devices)
    if which("nvidia-smi") and not found.get("cuda_build"):
        advice = "there is an NVIDIA driver, but torch is a build for the CPU: install torch's CUDA build"
        return Check("device", Verdict.WARN, "cpu", advice)
    if options.model == EMBEDDED:
        return Check("device", Verdict.OK, "cpu; enough for the embedded model")
    return Check("device", Verdict.WARN, "cpu", "a large model needs a GPU; `infill-ls models` shows which run here")


def _describe_device(device: dict[str, Any]) -> str:
    memory = f", {size(device['free_bytes'])} of {size(device['total_bytes'])} free" if device["total_bytes"] else ""
    return f"{device['device']} ({device['name']}{memory})"


def _model(found: dict[str, Any], options: WorkerOptions) -> Check:
    if problem := found["model_problem"]:
        words, _, advice = problem.partition("; ")
        return Check("model", Verdict.FAIL, words, advice)
    if found["guesses_lengths"]:
        name = options.resolved().model
        advice = f"run once, some minutes: {shown(['infill-ls', 'calibrate', '--model', name])}"
        return Check("model", Verdict.WARN, f"{name}; not calibrated: it guesses how long a hole is", advice)
    calibrated = "; its lengths are calibrated (infill-ls calibrate)" if found["calibrated"] else ""
    return Check("model", Verdict.OK, options.resolved().model + calibrated)


def runs(needs: dict[str, Any], options: WorkerOptions) -> Check:
    """In which dtype a checkpoint runs on this machine, and what the next better one needs, or the least one."""
    free, dtypes = needs["free_bytes"], needs["dtypes"]
    fitting = next((place for place, one in enumerate(dtypes) if one["needed_bytes"] <= free), len(dtypes))
    larger = [f"{one['dtype']} needs {size(one['needed_bytes'])}" for one in dtypes[:fitting]]
    has = f"{needs['device']} has {size(free)} free"
    if fitting == len(dtypes):
        least = dtypes[-1]
        advice = f"free {size(least['needed_bytes'] - free)} more for {least['dtype']}, or choose another device"
        return _does_not_run(needs, options, f"not here: {', '.join(larger)}; {has}", advice)
    found = f"{dtypes[fitting]['dtype']}: needs {size(dtypes[fitting]['needed_bytes'])}, {has}"
    if dtypes[fitting]["dtype"] in ("8bit", "4bit") and not needs["four_bit"]:
        return _does_not_run(needs, options, f"{found}, but the package bitsandbytes is missing", _INSTALL_FOUR_BIT)
    return Check(f"runs {needs['model']}", Verdict.OK, "; ".join([found, *larger[-1:]]))


def best_here(catalogue: dict[str, Any], options: WorkerOptions) -> Check:
    """The model of the catalogue that is best on this machine, and what to do where another one is chosen."""
    best = best_of(catalogue)
    advice = "" if options.resolved().model == best["name"] else next_step(best)
    return Check("best model here", Verdict.OK, f"{best['name']}: {best['words']}", advice)


def _does_not_run(needs: dict[str, Any], options: WorkerOptions, found: str, advice: str) -> Check:
    """A failure only where it is the checkpoint that was chosen, to run in whatever dtype it can."""
    chosen = needs["model"] == options.resolved().model and options.dtype is None
    return Check(f"runs {needs['model']}", Verdict.FAIL if chosen else Verdict.OK, found, advice)


def _memory() -> Check:
    memory = psutil.virtual_memory()
    found = f"{size(memory.total)}, {size(memory.available)} available"
    if memory.available < ENOUGH_BYTES:
        return Check(
            "memory", Verdict.WARN, found, f"the worker needs about {size(ENOUGH_BYTES)}: close other programs"
        )
    return Check("memory", Verdict.OK, found)


def _worker() -> Check:
    surveyed = asyncio.run(survey("infill-ls doctor"))
    workers = surveyed.running
    if surveyed.silent:
        found, _, advice = str(surveyed.silent[0]).partition("; ")
        return Check("worker", Verdict.FAIL, found, advice)
    if not workers:
        return Check("worker", Verdict.OK, "none is running; the first request starts one")
    found = "; ".join(f"{worker.status.state}: {describe_status(worker.status)}" for worker in workers)
    others = [worker for worker in workers if worker.release != version("infill-ls")]
    if others:
        advice = f"one is of release {others[0].release}: restart the editor that uses it, and it ends"
        return Check("worker", Verdict.WARN, found, advice)
    if any(worker.status.note for worker in workers):
        return Check("worker", Verdict.WARN, found, "download the checkpoint again, or choose another model")
    return Check("worker", Verdict.OK, found)


def _socket(paths: WorkerPaths) -> Check:
    return Check("socket", Verdict.OK, str(paths.socket))


def _folder(paths: WorkerPaths) -> Check:
    if trouble := why_not_private(paths.folder):
        found, _, advice = trouble.partition("; ")
        return Check("runtime folder", Verdict.FAIL, found, advice)
    state = "private" if paths.folder.is_dir() else "not there yet"
    return Check("runtime folder", Verdict.OK, f"{paths.folder} ({state})")


def _log(paths: WorkerPaths) -> Check:
    found = str(paths.log) if paths.log.is_file() else f"{paths.log} (not there yet)"
    if error := _last_line(paths.errors, _ERROR):
        return Check("log", Verdict.WARN, f"{found}; the last worker said: {error}", f"read {paths.errors}")
    if failure := _last_line(paths.log, _LOGGED):
        return Check("log", Verdict.WARN, f"{found}; the last failure in it: {failure}", f"read {paths.log}")
    return Check("log", Verdict.OK, found)


def _last_line(file: Path, wanted: re.Pattern[str]) -> str:
    """The last line near the end of a file that tells of an error; libraries also write warnings."""
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - _TAIL_BYTES))
            lines = stream.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line[:200] for line in reversed(lines) if wanted.search(line)), "")

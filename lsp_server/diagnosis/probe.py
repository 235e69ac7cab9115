"""Runs a process that may import torch to examine this machine and its models. Loads no model."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from shutil import which
from typing import Any

import msgspec

from inference.messages import WorkerOptions
from inference.models import extras
from inference.models.catalogue import AUTO, EMBEDDED
from inference.models.extras import shown
from lsp_server.diagnosis.check import Check, Grade
from lsp_server.diagnosis.models import best_of, next_step
from lsp_server.diagnosis.workers import size
from lsp_server.worker.options import problem_of, resolved
from lsp_server.worker.processes import run_child

PROBE_S = 120.0
"""How long the probe may take; it imports torch, which takes long from a cold disk."""
Tell = Callable[[str], None]
REINSTALL = f"install it again: {shown(extras.reinstall())}"
_INSTALL_FOUR_BIT = f"install it: {shown(extras.install('4bit'))}"


def probed(options: WorkerOptions, tell: Tell) -> Iterator[Check]:
    """What only torch and the engine can tell. `tell` receives what it is doing."""
    if unusable := problem_of(options):
        yield Check.told("model", Grade.FAIL, unusable)
        return
    try:
        found = asyncio.run(probe(options, tell))
    except (OSError, ValueError) as error:
        yield Check("engine", Grade.FAIL, f"it does not start: {error}", REINSTALL)
        return
    if problem := found.get("torch_problem"):
        yield Check("torch", Grade.FAIL, f"cannot be imported: {problem}", REINSTALL)
    else:
        yield Check("torch", Grade.OK, found["torch"])
    yield _device(found, options)
    options = msgspec.structs.replace(options, model=found["model"])
    yield _model(found, options)
    yield from (runs(needs, options) for needs in found["needs"])
    if found["catalogue"]:
        yield best_here(found["catalogue"], options)


async def probe(options: WorkerOptions, tell: Tell = lambda _: None) -> dict[str, Any]:
    """The JSON that `inference.serving.probe` prints last; `tell` gets what it does, at the end "". Raises OSError,
    or ValueError, which says why there is none.
    """
    words = ["--model", resolved(options).model]
    words += ["--device", options.device] if options.device else []
    words += ["--dtype", options.dtype] if options.dtype else []
    told: list[dict[str, Any]] = []

    def take(line: bytes) -> None:
        with suppress(ValueError, AttributeError):  # a library may print, too
            told.append(json.loads(line))
            tell(str(told[-1].get("doing", "")))

    try:
        async with asyncio.timeout(PROBE_S):
            status, errors = await run_child(take, "inference.serving.probe", *words)
    except TimeoutError:
        raise ValueError(f"no answer in {PROBE_S:.0f} s") from None
    finally:
        tell("")
    if status or not told:
        raise ValueError((errors.splitlines() or ["no output"])[-1])
    return told[-1]


async def probed_catalogue(device: str | None, tell: Tell = lambda _: None) -> dict[str, Any]:
    """The models of the catalogue, and how each runs on this machine. Raises OSError or ValueError, which says why it
    could not be examined.
    """
    found = await probe(WorkerOptions(device=device), tell)
    if not found["catalogue"]:
        raise ValueError(found["device_problem"] or found.get("torch_problem", "torch is missing"))
    return dict(found["catalogue"])


def _device(found: dict[str, Any], options: WorkerOptions) -> Check:
    if problem := found["device_problem"]:
        return Check.told("device", Grade.FAIL, problem, "leave out --device and --dtype to let the worker choose")
    devices = ", ".join(_describe_device(device) for device in found["devices"])
    if devices:
        return Check("device", Grade.OK, devices)
    if which("nvidia-smi") and not found.get("cuda_build"):
        advice = "there is an NVIDIA driver, but torch is a build for the CPU: install torch's CUDA build"
        return Check("device", Grade.WARN, "cpu", advice)
    if options.model in (AUTO, EMBEDDED):
        return Check("device", Grade.OK, "cpu; enough for the embedded model")
    return Check("device", Grade.WARN, "cpu", "a large model needs a GPU; `infill-ls models` shows which run here")


def _describe_device(device: dict[str, Any]) -> str:
    memory = f", {size(device['free_bytes'])} of {size(device['total_bytes'])} free" if device["total_bytes"] else ""
    return f"{device['device']} ({device['name']}{memory})"


def _model(found: dict[str, Any], options: WorkerOptions) -> Check:
    if problem := found["model_problem"]:
        return Check.told("model", Grade.FAIL, problem)
    why = f": {found['choice']}" if found["choice"] else ""
    return Check("model", Grade.OK, resolved(options).model + why)


def runs(needs: dict[str, Any], options: WorkerOptions) -> Check:
    """The dtype in which a checkpoint runs on this machine, and the memory for the next better one, or the smallest."""
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
    return Check(f"runs {needs['model']}", Grade.OK, "; ".join([found, *larger[-1:]]))


def best_here(catalogue: dict[str, Any], options: WorkerOptions) -> Check:
    """The best model of the catalogue for this machine, and what to do if another one is chosen."""
    best = best_of(catalogue)
    advice = "" if resolved(options).model == best["name"] else next_step(catalogue)
    return Check("best model here", Grade.OK, f"{best['name']}: {best['words']}", advice)


def _does_not_run(needs: dict[str, Any], options: WorkerOptions, found: str, advice: str) -> Check:
    """A failure only if it is the chosen checkpoint, in any dtype that it supports."""
    chosen = needs["model"] == resolved(options).model and options.dtype is None
    return Check(f"runs {needs['model']}", Grade.FAIL if chosen else Grade.OK, found, advice)

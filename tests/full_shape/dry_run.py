"""`python -m tests.full_shape.dry_run`: fills a hole with the released shape, and measures the cost."""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from inference.messages import Cancel, Candidate, Done, Draft, Hole, InfillRequest, Outcome, Text, WorkerMessage
from lsp_server.worker import WorkerOptions
from lsp_server.worker.paths import FOLDER_VARIABLE, paths_of
from tests.full_shape import made_up
from tests.workers import RawClient

CODE = 'def area(width, height):\n    """The area of a rectangle."""\n    # ???\n    return width * height\n'
"""The hole is in a comment, for there anything fits: made-up weights write no expression."""
HOURS_S = 4 * 3600.0
STEPS = 3
LATE_STEPS, LATE_S = 2.5, 30.0
"""A deadline or a cancel is obeyed before the step after the next one ends, and what a busy machine adds."""


class DryRunFailed(Exception):
    """Something is not as it must be; str() says what."""


def main() -> int:
    """Write the checkpoint, run everything, print the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.full_shape.dry_run", description=__doc__)
    parser.add_argument("--layers", type=int, default=30, help="of the released shape's 30")
    parser.add_argument("--small", action="store_true", help="a small shape, to try this program itself")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    if (score := Path("/proc/self/oom_score_adj")).exists():
        score.write_text("1000")  # where memory runs out, it is this run that ends and no other program
    home = Path(tempfile.mkdtemp(prefix="ils-", dir="/tmp"))
    os.environ[FOLDER_VARIABLE] = str(home / "run")
    (home / "run").mkdir(mode=0o700)
    try:
        result = asyncio.run(_run(home, args))
    except DryRunFailed as failed:
        print(f"dry run: {failed}", file=sys.stderr)
        return 1
    finally:
        _command("worker", "--stop", "--model", str(home / "model"), "--dtype", "4bit", "--device", args.device)
        shutil.rmtree(home, ignore_errors=True)
    print(json.dumps(result))
    return 0


async def _run(home: Path, args: argparse.Namespace) -> dict[str, Any]:
    model, device = home / "model", args.device
    made_up.write(model, args.layers, dense=False, **(made_up.SMALL if args.small else {}))
    _say(f"{args.layers} layers: {_size(model)} in shards that take {_disk(model)} of disk")
    options = WorkerOptions(str(model), device, "4bit")
    began = time.monotonic()
    words = ("--model", str(model), "--dtype", "4bit", "--device", device)
    _require(_command("worker", "--background", *words), "the worker could not load it")
    result: dict[str, Any] = {"layers": args.layers, "device": device, "load_s": time.monotonic() - began}
    client = await RawClient.open(paths_of(options))
    status = await client.status()
    process = psutil.Process(status.pid)
    result |= {"dtype": status.dtype, "load_peak_bytes": _peak(process), "loaded_bytes": process.memory_info().rss}
    _say(json.dumps(result))
    result["fill_s"] = _filled(home, words)
    result["step_s"] = step_s = await _steps(client)
    result["deadline_s"] = await _deadline(client, step_s)
    result["cancel_s"] = await _cancelled(client, step_s)
    return result | {"peak_bytes": _peak(process), "device_bytes": (await client.status()).device_memory_bytes}


def _filled(home: Path, words: tuple[str, ...]) -> float:
    """How long `infill-ls fill` took. Raises DryRunFailed where the hole is not filled or a pin has moved."""
    file = home / "area.py"
    file.write_text(CODE)
    began = time.monotonic()
    limits = {"INFILL_LS_MAX_STEPS": str(STEPS), "INFILL_LS_CANDIDATES_INVOKED": "8"}  # some of made-up ones fit
    done = _command("fill", str(file), "--write", "--deadline-ms", "3600000", *words, **limits)
    _require(done, "infill-ls fill failed")
    before, after = CODE.split("???")
    text = file.read_text()
    if not (text.startswith(before) and text.endswith(after)):
        raise DryRunFailed(f"what is pinned has changed: {text!r}")
    if len(text) == len(before + after) or "???" in text:
        raise DryRunFailed(f"the hole is not filled: {text!r}")
    _say(f"filled with {text[len(before) : len(text) - len(after)]!r}")
    return time.monotonic() - began


def _request(name: str, **other: Any) -> InfillRequest:
    before, after = CODE.split("???")
    hole = Hole(min_tokens=8, max_tokens=8, single_line=True)
    return InfillRequest(name, (Text(before), hole, Text(after)), **{"max_steps": STEPS, "drafts": True, **other})


async def _steps(client: RawClient) -> float:
    client.send(_request("steps"))
    at = []
    while not isinstance(message := await _next(client), Done):
        at += [time.monotonic()] if isinstance(message, Draft) else []
    if message.stats.steps < 2 or len(at) < 2:
        raise DryRunFailed(f"too few steps to time: {message}")
    return (at[-1] - at[0]) / (len(at) - 1)


async def _deadline(client: RawClient, step_s: float) -> float:
    deadline_s = 1.5 * step_s
    began = time.monotonic()
    client.send(_request("deadline", deadline_ms=int(deadline_s * 1000), max_steps=200))
    found = []
    while not isinstance(message := await _next(client), Done):
        found += [message] if isinstance(message, Candidate) else []
    late = time.monotonic() - began - deadline_s
    if message.outcome is not Outcome.DEADLINE or late > LATE_STEPS * step_s + LATE_S:
        raise DryRunFailed(f"the deadline is not obeyed: {late:.1f} s late, {message}")
    return late


async def _cancelled(client: RawClient, step_s: float) -> float:
    client.send(_request("cancelled", max_steps=200))
    while not isinstance(await _next(client), Draft):
        pass
    began = time.monotonic()
    client.send(Cancel("cancelled"))
    while not isinstance(message := await _next(client), Done):
        pass
    late = time.monotonic() - began
    if message.outcome is not Outcome.CANCELLED or late > LATE_STEPS * step_s + LATE_S:
        raise DryRunFailed(f"the cancel is not obeyed: {late:.1f} s late, {message}")
    return late


async def _next(client: RawClient) -> WorkerMessage:
    async with asyncio.timeout(HOURS_S):
        return await client.stream.receive()


def _command(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "lsp_server.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


def _require(done: "subprocess.CompletedProcess[str]", trouble: str) -> None:
    if done.returncode:
        raise DryRunFailed(f"{trouble}: {done.stderr.strip()}")


def _peak(process: psutil.Process) -> int:
    status = Path(f"/proc/{process.pid}/status")
    if not status.is_file():
        return int(process.memory_info().rss)
    return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))


def _size(folder: Path) -> str:
    return f"{sum(file.stat().st_size for file in folder.iterdir()) / 1e9:.1f} GB"


def _disk(folder: Path) -> str:
    return f"{sum(file.stat().st_blocks * 512 for file in folder.iterdir()) / 1e9:.2f} GB"


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())

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

from inference.messages import Status
from lsp_server.worker import WorkerOptions
from lsp_server.worker.paths import FOLDER_VARIABLE, paths_of
from tests.full_shape import made_up
from tests.inference.models.random_model import BYTES, SPECIAL_TOKENS, byte_tokenizer
from tests.inference.models.test_diffusion_gguf import write_diffusion_gguf
from tests.workers import RawClient

CODE = 'def area(width, height):\n    """The area of a rectangle."""\n    # ???\n    return width * height\n'
"""The hole is in a comment, for there anything fits: made-up weights write no expression."""
LIMITS = {"INFILL_LS_MAX_STEPS": "3", "INFILL_LS_CANDIDATES_INVOKED": "8"}
"""So many candidates, because of made-up ones only some fit."""


def main() -> None:
    """Write the checkpoint, run everything, print the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.full_shape.dry_run", description=__doc__)
    parser.add_argument("--layers", type=int, default=30, help="of the released shape's 30")
    parser.add_argument("--small", action="store_true", help="a small shape, to try this program itself")
    parser.add_argument("--gguf", metavar="TYPE", help="from a file with matrices of this type, such as Q4_0")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    if (score := Path("/proc/self/oom_score_adj")).exists():
        score.write_text("1000")  # where memory runs out, it is this run that ends and no other program
    home = Path(tempfile.mkdtemp(prefix="ils-", dir="/tmp"))
    os.environ |= {FOLDER_VARIABLE: str(home / "run"), "XDG_CACHE_HOME": str(home / "cache")}
    (home / "run").mkdir(mode=0o700)
    options = WorkerOptions(str(home / ("model.gguf" if args.gguf else "model")), args.device, "4bit")
    words = ("--model", options.model, "--dtype", "4bit", "--device", args.device)
    try:
        made_up.write(home / "model", args.layers, dense=False, **(made_up.SMALL if args.small else {}))
        if args.gguf:
            _write_gguf(home / "model", home / "model.gguf", args.gguf)
        result = {"layers": args.layers, "device": args.device, **_run(home, options, words)}
    finally:
        _command("worker", "--stop", *words)
        shutil.rmtree(home, ignore_errors=True)
    print(json.dumps(result))


def _write_gguf(folder: Path, file: Path, kind: str) -> None:
    """The file in place of the folder, with a tokenizer of bytes."""
    size = json.loads((folder / "config.json").read_text())["text_config"]["vocab_size"]
    names = [*SPECIAL_TOKENS, *BYTES]
    fillers = [f"filler{number}" for number in range(len(names), size)]
    byte_tokenizer([*names, *fillers]).save(str(folder / "tokenizer.json"))
    write_diffusion_gguf(folder, file, kind)
    shutil.rmtree(folder)


def _run(home: Path, options: WorkerOptions, words: tuple[str, ...]) -> dict[str, Any]:
    began = time.monotonic()
    _require(_command("worker", *words), "the worker could not load it")
    loaded_s = time.monotonic() - began
    status = asyncio.run(_status(options))
    process = psutil.Process(status.pid)
    result = {"dtype": status.dtype, "load_s": loaded_s, "load_peak_bytes": peak_bytes(process)}
    result |= {"loaded_bytes": process.memory_info().rss, "fill_s": _filled(home, words)}
    device_bytes = asyncio.run(_status(options)).device_memory_bytes
    return result | {"peak_bytes": peak_bytes(process), "device_bytes": device_bytes}


async def _status(options: WorkerOptions) -> Status:
    client = await RawClient.open(paths_of(options))
    try:
        return await client.status()
    finally:
        client.close()


def _filled(home: Path, words: tuple[str, ...]) -> float:
    """How long `infill-ls fill` took. Ends the run where the hole is not filled or a pin has moved."""
    file = home / "area.py"
    file.write_text(CODE)
    began = time.monotonic()
    done = _command("fill", str(file), "--write", "--deadline-ms", "3600000", *words, **LIMITS)
    _require(done, "infill-ls fill failed")
    before, after = CODE.split("???")
    text = file.read_text()
    if not (text.startswith(before) and text.endswith(after)):
        sys.exit(f"dry run: what is pinned has changed: {text!r}")
    if len(text) == len(before + after) or "???" in text:
        sys.exit(f"dry run: the hole is not filled: {text!r}")
    return time.monotonic() - began


def _command(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "lsp_server.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


def _require(done: "subprocess.CompletedProcess[str]", trouble: str) -> None:
    if done.returncode:
        sys.exit(f"dry run: {trouble}: {done.stderr.strip()}")


def peak_bytes(process: psutil.Process) -> int:
    status = Path(f"/proc/{process.pid}/status")
    if not status.is_file():
        return int(process.memory_info().rss)
    return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()

"""From a key press to visible ghost text in real editors, and where the time goes.

    editor   key press to request: the editor's own delay before it asks (Neovim waits 200 ms)
    server   request to answer, less the engine: the server's debounce (a setting), carving, fitting, both sockets
    engine   the worker's request: encoding, denoising, ranking
    paint    answer to the redraw that shows the ghost text

Neovim draws to us, driven by `editor.lua`, with its own worker; VS Code needs a checkout. Each key
differs from the next character of the suggestion shown: one that agreed would need no model. The last line of output is
one JSON object. Times are in milliseconds.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import psutil

from inference.bench import BenchError, command, percentiles, positive
from inference.bench.server_editor import SERVER, server_environment
from inference.models.catalogue import names_no_folder
from inference.models.printable import say

ROOT = Path(__file__).resolve().parents[2]
VSCODE = ROOT / "tests" / "editors" / "vscode" / "bench.py"
INSTALLED = ROOT / ".editors" / "bin"
"""`make test-editors` installs editors here."""
LUA = Path(__file__).with_suffix(".lua")
_STAGES = {"key", "asked", "answered", "painted"}
_ENDED = re.compile(r"^(\S+ \S+?),(\d+) .*a request ended after (\d+) ms", re.MULTILINE)
_COLUMNS_AND_ROWS = (100, 40)
_START_S = 60
_KEY_S = 4
"""How long Neovim may take to get to the first key, and for each key."""


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """The figures of each editor, or why it was not measured."""
    is_path = Path(args.model).exists() and not names_no_folder(args.model)
    model = str(Path(args.model).resolve()) if is_path else args.model
    wanted: dict[str, Callable[[], dict[str, Any]]] = {
        "neovim": lambda: neovim(args.nvim, args.keystrokes, model),
        "vscode": lambda: vscode(args.keystrokes, model),
    }
    found: dict[str, Any] = {}
    for name, measure_it in wanted.items():
        if args.editor in (None, name):
            try:
                found[name] = measure_it()
            except BenchError as reason:
                say(f"{name} is not measured: {reason}")
                found[name] = {"not_measured": str(reason)}
    return found


def neovim(program: str | None, keystrokes: int, model: str) -> dict[str, Any]:
    """Measures key presses in a Neovim with a home and a worker of its own. Raises BenchError."""
    path = program or shutil.which("nvim") or shutil.which("nvim", path=str(INSTALLED))
    if path is None:
        raise BenchError("nvim is not on PATH; install Neovim 0.12 or newer, or name one with --nvim")
    with tempfile.TemporaryDirectory(prefix="ilb-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        home, runtime = Path(folder), Path(folder) / "run"
        runtime.mkdir(mode=0o700)
        variables = {k: v for k, v in server_environment(runtime).items() if not k.startswith(("XDG_", "NVIM"))}
        environment = variables | {"HOME": folder, "TERM": "xterm-256color"}
        try:
            presses = _presses(path, home, environment, keystrokes, model)
        finally:
            stop = [*SERVER, "worker", "--stop", "--model", model]
            subprocess.run(stop, env=environment, capture_output=True, check=False)
        ended = list(engine_ends(runtime))
    rows = [split(press, ended) for press in presses[1:] if press.keys() >= _STAGES]  # the first warms up
    if not rows:
        raise BenchError("no key press brought ghost text; see what `infill-ls doctor` says")
    return {
        "benchmark": "editor",
        "editor": "neovim",
        "model": model,
        "keystrokes": keystrokes,
        "with_ghost_text": len(rows),
        "load_average": round(psutil.getloadavg()[0], 1),
        "ms": {part: percentiles([row[part] for row in rows]) for part in rows[0]},
    }


def vscode(keystrokes: int, model: str) -> dict[str, Any]:
    """Measures key presses in VS Code with the script of its tests. Raises BenchError."""
    if not VSCODE.is_file():
        raise BenchError("its driver is not part of the package; run this in a checkout of the repository")
    command = [sys.executable, "-m", "tests.editors.vscode.bench", "--keystrokes", str(keystrokes), "--model", model]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    try:
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        said = done.stderr.strip().splitlines()
        raise BenchError(said[-1].removeprefix("infill-ls: ") if said else f"exit {done.returncode}") from None
    return result


def _presses(
    program: str, home: Path, environment: Mapping[str, str], keystrokes: int, model: str
) -> Sequence[Mapping[str, float]]:
    """The Lua recording: for each key press, the times (seconds since 1970) of its stages. Raises BenchError."""
    result = home / "result.json"
    plan = {
        "cmd": [*SERVER, "serve", "--model", model],
        "file": str(home / "bench.py"),
        "result": str(result),
        "keystrokes": keystrokes + 1,
    }
    limit_s = _START_S + (keystrokes + 1) * _KEY_S
    command = [program, "--embed", "--clean", "-n", "-c", f"luafile {LUA}"]
    try:
        _run_with_screen(command, {**environment, "BENCH_PLAN": json.dumps(plan)}, limit_s)
    except OSError as error:
        raise BenchError(f"{program} does not run: {error}") from error
    if not result.is_file():
        raise BenchError("Neovim ended before it was done")
    said = json.loads(result.read_text())
    if said.get("problem"):
        raise BenchError(said["problem"])
    presses: list[dict[str, float]] = said["presses"]
    return presses


def _run_with_screen(command: Sequence[str], environment: Mapping[str, str], limit_s: float) -> None:
    """Runs a Neovim that draws to us instead of a terminal. Raises BenchError if it takes too long."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin and process.stdout
        threading.Thread(target=process.stdout.read, daemon=True).start()  # what it draws
        process.stdin.write(msgspec.msgpack.encode([0, 1, "nvim_ui_attach", [*_COLUMNS_AND_ROWS, {}]]))
        process.stdin.flush()
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"Neovim was not done in {limit_s:.0f} s") from error
        finally:
            process.kill()


def engine_ends(runtime: Path) -> Iterator[tuple[float, float]]:
    """When each request of the worker ended, in seconds since 1970, and its duration in ms."""
    for log in runtime.glob("*.log"):
        for stamp, thousandths, ms in _ENDED.findall(log.read_text("utf-8")):
            yield datetime.fromisoformat(stamp).timestamp() + int(thousandths) / 1000, float(ms)


def split(press: Mapping[str, float], ended: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Where the time of a key press went, in ms, by its stages and the ends of the worker's requests."""
    engine = sum(ms for at, ms in ended if press["asked"] <= at <= press["answered"] + 0.005)
    return {
        "total": (press["painted"] - press["key"]) * 1000,
        "editor": (press["asked"] - press["key"]) * 1000,
        "server": max((press["answered"] - press["asked"]) * 1000 - engine, 0.0),
        "engine": engine,
        "paint": (press["painted"] - press["answered"]) * 1000,
    }


def argument_parser() -> argparse.ArgumentParser:
    parser = command("editor", __doc__)
    parser.add_argument("--editor", choices=("neovim", "vscode"), help="measure only this one")
    parser.add_argument("--keystrokes", type=positive, default=20, metavar="N", help="in each (default: %(default)s)")
    parser.add_argument("--nvim", metavar="PROGRAM", help="this Neovim instead of the one on PATH")
    parser.add_argument("--model", default="embedded", metavar="ID_OR_FOLDER", help="the model (default: embedded)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints; returns the exit status, 1 if no editor could be measured."""
    found = measure(argument_parser().parse_args(argv))
    print(json.dumps({"benchmark": "editor", "editors": found}))
    return 0 if any("ms" in one for one in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())

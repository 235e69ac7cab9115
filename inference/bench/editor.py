"""`infill-ls bench editor`: from a key press to visible ghost text in real editors, and where the time goes.

    editor   key press to request: the editor's own delay before it asks (Neovim waits 200 ms)
    server   request to answer, less the engine: the server's debounce (a setting), carving, fitting, both sockets
    engine   the worker's request: encoding, denoising, ranking
    paint    answer to the screen with the ghost text drawn

Neovim runs in a pseudo-terminal, driven by `editor.lua`, with its own worker; VS Code needs a checkout. Each key
differs from the next character of the suggestion shown: one that agreed would need no model. The last line of output is
one JSON object. Times are in milliseconds.
"""

import argparse
import json
import math
import os
import re
import select
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from inference.models.catalogue import names_no_folder

ROOT = Path(__file__).resolve().parents[2]
VSCODE = ROOT / "tests" / "editors" / "vscode" / "bench.py"
INSTALLED = ROOT / ".editors" / "bin"
"""`make test-editors` installs editors here."""
SERVER = [sys.executable, "-P", "-m", "lsp_server.cli"]
LUA = Path(__file__).with_suffix(".lua")
PATIENCE_MS = 30_000
_IDLE_S = 2
_PAUSE_MS = 700
_FUNCTION = '''\
def name_{0}(first, second):
    """Add what is {0}."""
    total = first + {0}
    for value in second:
        total += value
    return total


'''
_KEYS = "tf"
"""First letters of names in each function: either begins a word, and the model does not expect one of the two."""
_HEIGHT = _FUNCTION.count("\n")
_LINE = 6
_COLUMN = len("    return ")
_STAGES = {"key", "asked", "answered", "painted"}
_ENDED = re.compile(r"^(\S+ \S+?),(\d+) .*a request ended after (\d+) ms", re.MULTILINE)
_OLDEST = (0, 12)
_ROWS_AND_COLUMNS = (40, 100)


class CannotRunError(Exception):
    """An editor cannot be measured; str() says why, and what to do if anything helps."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints; returns the exit status, 1 if no editor could be measured."""
    args = argument_parser().parse_args(argv)
    is_path = Path(args.model).exists() and not names_no_folder(args.model)
    model = str(Path(args.model).resolve()) if is_path else args.model
    wanted: dict[str, Callable[[], dict[str, Any]]] = {
        "neovim": lambda: neovim(args.nvim, args.keystrokes, model),
        "vscode": lambda: vscode(args.keystrokes, model),
    }
    found: dict[str, Any] = {}
    for name, measure in wanted.items():
        if args.editor in (None, name):
            try:
                found[name] = measure()
            except CannotRunError as reason:
                print(f"infill-ls: {name} is not measured: {reason}", file=sys.stderr)
                found[name] = {"not_measured": str(reason)}
                continue
            if not args.json:
                print(_table(found[name]), flush=True)
    print(json.dumps({"benchmark": "editor", "editors": found}))
    return 0 if any("ms" in one for one in found.values()) else 1


def neovim(program: str | None, keystrokes: int, model: str) -> dict[str, Any]:
    """Measures key presses in Neovim. Raises CannotRunError."""
    path = program or shutil.which("nvim") or shutil.which("nvim", path=str(INSTALLED))
    if path is None:
        raise CannotRunError("nvim is not on PATH; install Neovim 0.12 or newer, or name one with --nvim")
    if os.name == "nt":
        raise CannotRunError("Neovim needs a pseudo-terminal for this, which Windows does not have")
    with tempfile.TemporaryDirectory(prefix="ilb-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        return _measured(path, Path(folder), keystrokes, model)


def vscode(keystrokes: int, model: str) -> dict[str, Any]:
    """Measures key presses in VS Code with the script of its tests. Raises CannotRunError."""
    if not VSCODE.is_file():
        raise CannotRunError("its driver is not part of the package; run this in a checkout of the repository")
    command = [sys.executable, "-m", "tests.editors.vscode.bench", "--keystrokes", str(keystrokes), "--model", model]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    try:
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        said = done.stderr.strip().splitlines()
        raise CannotRunError(said[-1].removeprefix("infill-ls: ") if said else f"exit {done.returncode}") from None
    return result


def _table(result: dict[str, Any]) -> str:
    rows = [f"{result['editor']}: {result['with_ghost_text']} of {result['keystrokes']} key presses brought ghost text"]
    for part, ms in result["ms"].items():
        rows.append(f"  {part:<8}{ms['p50']:>9.1f} ms{ms['p95']:>9.1f} ms (p95)")
    return "\n".join(rows)


def _measured(program: str, home: Path, keystrokes: int, model: str) -> dict[str, Any]:
    """Measures key presses in one Neovim, with `home` as its user's home. Raises CannotRunError."""
    version = _version_of(program)
    environment = _environment(home)
    try:
        presses = _presses(program, home, environment, keystrokes, model)
    finally:
        subprocess.run(
            [*SERVER, "worker", "--stop", "--model", model], env=environment, capture_output=True, check=False
        )
    ended = list(_engine_ends(home / "run"))
    rows = [_split(press, ended) for press in presses[1:] if press.keys() >= _STAGES]  # the first warms up
    if not rows:
        raise CannotRunError("no key press brought ghost text; see what `infill-ls doctor` says")
    return {
        "benchmark": "editor",
        "editor": "neovim",
        "version": version,
        "model": model,
        "keystrokes": keystrokes,
        "with_ghost_text": len(rows),
        "load_average": round(os.getloadavg()[0], 1),
        "ms": {part: _quantiles([row[part] for row in rows]) for part in rows[0]},
    }


def _version_of(program: str) -> str:
    """The version of a Neovim. Raises CannotRunError if it does not run or is too old."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotRunError(f"{program} does not run: {error}") from error
    found = re.match(r"NVIM v((\d+)\.(\d+)\S*)", said)
    if found is None or (int(found[2]), int(found[3])) < _OLDEST:
        raise CannotRunError(
            f"{program} is {said.splitlines()[0] if said else 'unknown'}; this needs Neovim 0.12 or newer"
        )
    return found[1]


def _environment(home: Path) -> dict[str, str]:
    """An environment without a user's settings, and with a separate worker."""
    (home / "run").mkdir(mode=0o700)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "NVIM"))}
    return {**kept, "HOME": str(home), "TERM": "xterm-256color", "INFILL_LS_RUNTIME_DIR": str(home / "run")}


def _presses(
    program: str, home: Path, environment: Mapping[str, str], keystrokes: int, model: str
) -> Sequence[Mapping[str, float]]:
    """The Lua recording: for each key press, the times (seconds since 1970) of its stages. Raises CannotRunError."""
    file = home / "bench.py"
    plan = home / "plan.json"
    result = home / "result.json"
    file.write_text("".join(_FUNCTION.format(number) for number in range(keystrokes + 1)))
    to_do = {
        "cmd": [*SERVER, "serve", "--model", model],
        "settings": {"idleSeconds": _IDLE_S},
        "file": str(file),
        "result": str(result),
        "keystrokes": keystrokes + 1,
        "height": _HEIGHT,
        "line": _LINE,
        "column": _COLUMN,
        "keys": _KEYS,
        "pause_ms": _PAUSE_MS,
        "patience_ms": PATIENCE_MS,
    }
    plan.write_text(json.dumps(to_do))
    command = [program, "--clean", "-n", "-c", f"luafile {LUA}"]
    limit_s = (PATIENCE_MS * 2 + (keystrokes + 1) * (_PAUSE_MS + PATIENCE_MS / 10)) / 1000
    _run_in_terminal(command, {**environment, "BENCH_PLAN": str(plan)}, limit_s)
    if not result.is_file():
        raise CannotRunError("Neovim ended before it was done")
    said = json.loads(result.read_text())
    if said.get("problem"):
        raise CannotRunError(said["problem"])
    presses: list[dict[str, float]] = said["presses"]
    return presses


def _run_in_terminal(command: Sequence[str], environment: Mapping[str, str], limit_s: float) -> None:
    """Runs a program in a pseudo-terminal and reads all its output. Raises CannotRunError if it takes too long."""
    import fcntl  # here and not above: these three exist only on POSIX
    import pty
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *_ROWS_AND_COLUMNS, 0, 0))
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    give_up = time.monotonic() + limit_s
    try:
        while process.poll() is None:
            if time.monotonic() > give_up:
                raise CannotRunError(f"Neovim was not done in {limit_s:.0f} s")
            if select.select([ours], [], [], 0.1)[0]:
                with suppress(OSError):  # it has closed its side
                    os.read(ours, 65_536)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _engine_ends(runtime: Path) -> Iterator[tuple[float, float]]:
    """When each request of the worker ended, in seconds since 1970, and its duration in ms."""
    for log in runtime.glob("*.log"):
        for stamp, thousandths, ms in _ENDED.findall(log.read_text("utf-8")):
            yield datetime.fromisoformat(stamp).timestamp() + int(thousandths) / 1000, float(ms)


def _split(press: Mapping[str, float], ended: Sequence[tuple[float, float]]) -> dict[str, float]:
    engine = sum(ms for at, ms in ended if press["asked"] <= at <= press["answered"] + 0.005)
    return {
        "total": (press["painted"] - press["key"]) * 1000,
        "editor": (press["asked"] - press["key"]) * 1000,
        "server": max((press["answered"] - press["asked"]) * 1000 - engine, 0.0),
        "engine": engine,
        "paint": (press["painted"] - press["answered"]) * 1000,
    }


def _quantiles(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {"p50": round(statistics.median(ordered), 1), "p95": round(ordered[math.ceil(0.95 * len(ordered)) - 1], 1)}


def argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="infill-ls bench editor", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--editor", choices=("neovim", "vscode"), help="measure only this one")
    parser.add_argument("--keystrokes", type=int, default=20, metavar="N", help="in each (default: %(default)s)")
    parser.add_argument("--nvim", metavar="PROGRAM", help="this Neovim instead of the one on PATH")
    parser.add_argument("--model", default="embedded", metavar="ID_OR_FOLDER", help="the model (default: embedded)")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    return parser


if __name__ == "__main__":
    sys.exit(main())

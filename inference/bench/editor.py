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
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from inference.bench import percentiles, positive
from inference.bench.server_editor import SERVER, server_environment
from inference.models.catalogue import names_no_folder

ROOT = Path(__file__).resolve().parents[2]
VSCODE = ROOT / "tests" / "editors" / "vscode" / "bench.py"
INSTALLED = ROOT / ".editors" / "bin"
"""`make test-editors` installs editors here."""
LUA = Path(__file__).with_suffix(".lua")
_STAGES = {"key", "asked", "answered", "painted"}
_ENDED = re.compile(r"^(\S+ \S+?),(\d+) .*a request ended after (\d+) ms", re.MULTILINE)
_ROWS_AND_COLUMNS = (40, 100)
_START_S = 60
_KEY_S = 4
"""How long Neovim may take to get to the first key, and for each key."""


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
    print(json.dumps({"benchmark": "editor", "editors": found}))
    return 0 if any("ms" in one for one in found.values()) else 1


def neovim(program: str | None, keystrokes: int, model: str) -> dict[str, Any]:
    """Measures key presses in a Neovim with a home and a worker of its own. Raises CannotRunError."""
    path = program or shutil.which("nvim") or shutil.which("nvim", path=str(INSTALLED))
    if path is None:
        raise CannotRunError("nvim is not on PATH; install Neovim 0.12 or newer, or name one with --nvim")
    if os.name == "nt":
        raise CannotRunError("Neovim needs a pseudo-terminal for this, which Windows does not have")
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
        raise CannotRunError("no key press brought ghost text; see what `infill-ls doctor` says")
    return {
        "benchmark": "editor",
        "editor": "neovim",
        "model": model,
        "keystrokes": keystrokes,
        "with_ghost_text": len(rows),
        "load_average": round(os.getloadavg()[0], 1),
        "ms": {part: percentiles([row[part] for row in rows]) for part in rows[0]},
    }


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


def _presses(
    program: str, home: Path, environment: Mapping[str, str], keystrokes: int, model: str
) -> Sequence[Mapping[str, float]]:
    """The Lua recording: for each key press, the times (seconds since 1970) of its stages. Raises CannotRunError."""
    result = home / "result.json"
    plan = {
        "cmd": [*SERVER, "serve", "--model", model],
        "file": str(home / "bench.py"),
        "result": str(result),
        "keystrokes": keystrokes + 1,
    }
    limit_s = _START_S + (keystrokes + 1) * _KEY_S
    command = [program, "--clean", "-n", "-c", f"luafile {LUA}"]
    try:
        _run_in_terminal(command, {**environment, "BENCH_PLAN": json.dumps(plan)}, limit_s)
    except OSError as error:
        raise CannotRunError(f"{program} does not run: {error}") from error
    if not result.is_file():
        raise CannotRunError("Neovim ended before it was done")
    said = json.loads(result.read_text())
    if said.get("problem"):
        raise CannotRunError(said["problem"])
    presses: list[dict[str, float]] = said["presses"]
    return presses


def _run_in_terminal(command: Sequence[str], environment: Mapping[str, str], limit_s: float) -> None:
    """Runs a program in a pseudo-terminal and reads all its output. Raises CannotRunError if it takes too long."""
    import pty  # here and not above: these two exist only on POSIX
    import termios

    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, _ROWS_AND_COLUMNS)
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
    parser = argparse.ArgumentParser(
        prog="infill-ls bench editor", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--editor", choices=("neovim", "vscode"), help="measure only this one")
    parser.add_argument("--keystrokes", type=positive, default=20, metavar="N", help="in each (default: %(default)s)")
    parser.add_argument("--nvim", metavar="PROGRAM", help="this Neovim instead of the one on PATH")
    parser.add_argument("--model", default="embedded", metavar="ID_OR_FOLDER", help="the model (default: embedded)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

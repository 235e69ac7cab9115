"""`python -m tests.editors.bench`: from the first key at a new place to visible ghost text, and where the time goes.

    editor   key press to request: the editor's own delay before it asks (Neovim waits 200 ms)
    server   request to answer, less the engine: the server's debounce (a setting), carving, fitting, both sockets
    engine   the worker's request: encoding, denoising, ranking
    paint    answer to the redraw that shows the ghost text

Neovim draws to us, driven by `bench.lua`, with its own worker. The cursor rests at each place for a second, while the
worker reads ahead or, at every second place, does not. The last line of output is one JSON object, whose `ratio` is the
time with reading ahead as a share of that without. Times are in milliseconds.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil

from inference.bench import BenchError, percentiles, positive_int
from inference.bench.server_editor import SERVER_COMMAND, server_environment
from inference.models import model_store
from inference.models.catalogue import is_name_or_hub_id
from inference.terminal import print_message
from tests.editors import places
from tests.editors.vscode import bench as vscode
from tests.editors.vscode.bench import Ends, Presses, engine_end_times

PLUGIN = Path(__file__).resolve().parents[2] / "editors" / "nvim"
LUA = Path(__file__).with_suffix(".lua")
_STAGES = {"key", "asked", "answered", "painted"}
_COLUMNS_AND_ROWS = (100, 40)
_START_S = 150
_KEY_S = 4
"""How long Neovim may take to get to the first key, and for each key."""


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """The figures of each editor, or why it was not measured."""
    is_path = Path(args.model).exists() and not is_name_or_hub_id(args.model)
    found = Path(args.model) if is_path else model_store.find_model(args.model)  # the editors' home has no models
    model = str(found.resolve()) if found else args.model
    results: dict[str, Any] = {}
    for name, press_keys in (("neovim", neovim), ("vscode", vscode.press_keys)):
        if args.editor in (None, name):
            about = {"benchmark": "editor", "editor": name, "model": model, "keystrokes": args.keystrokes}
            try:
                results[name] = about | latency_breakdown(*press_keys(args.keystrokes, model))
            except BenchError as reason:
                print_message(f"{name} is not measured: {reason}")
                results[name] = {"not_measured": str(reason)}
    return {"benchmark": "editor", "editors": results}


def latency_breakdown(presses: Presses, ended: Ends) -> dict[str, Any]:
    """Where the time went, of the presses that brought ghost text. Raises BenchError if none did."""
    found: dict[str, Any] = {}
    for read_ahead, some in presses.items():
        rows = [_split(press, ended) for press in some if press.keys() >= _STAGES]
        if not rows:
            raise BenchError("no key press brought ghost text; see what `infill-ls doctor` says")
        ms = {part: percentiles([row[part] for row in rows]) for part in rows[0]}
        found[read_ahead] = {"with_ghost_text": len(rows), "ms": ms}
    ratio = found["on"]["ms"]["total"]["p50"] / found["off"]["ms"]["total"]["p50"]
    return {"load_average": round(psutil.getloadavg()[0], 1), "read_ahead": found, "ratio": round(ratio, 2)}


def neovim(keystrokes: int, model: str) -> tuple[Presses, Ends]:
    """Presses keys in a Neovim with a home and a worker of its own. Raises BenchError."""
    path = places.program("nvim")
    if path is None:
        raise BenchError("nvim is not on PATH; run: make test-editors")
    with tempfile.TemporaryDirectory(prefix="ilb-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        runtime, result = Path(folder, "run"), Path(folder, "result.json")
        runtime.mkdir(mode=0o700)
        plan = {
            "cmd": [*SERVER_COMMAND, "serve", "--model", model],
            "file": str(Path(folder, "bench.py")),
            "result": str(result),
            "keystrokes": keystrokes,
            "model": model,
            "plugin": str(PLUGIN),
        }
        inherited = {k: v for k, v in server_environment(runtime).items() if not k.startswith(("XDG_", "NVIM"))}
        environment = inherited | {"HOME": folder, "TERM": "xterm-256color", "BENCH_PLAN": json.dumps(plan)}
        command = [path, "--embed", "--clean", "-n", "-c", f"luafile {LUA}"]
        try:
            _run_with_screen(command, environment, _START_S + 2 * keystrokes * _KEY_S)
        except OSError as error:
            raise BenchError(f"{path} does not run: {error}") from error
        finally:
            stop = [*SERVER_COMMAND, "worker", "--stop", "--force", "--model", model]
            subprocess.run(stop, env=environment, capture_output=True, check=False)
        if not result.is_file():
            raise BenchError("Neovim ended before it was done")
        output = json.loads(result.read_text())
        if output.get("problem"):
            raise BenchError(output["problem"])
        return output["presses"], engine_end_times(runtime)


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


def _split(press: Mapping[str, float], ended: Ends) -> dict[str, float]:
    """Where the time of a key press went, in ms, by its stages and the ends of the worker's requests."""
    answer = (press["answered"] - press["asked"]) * 1000
    engine = min(sum(ms for at, ms in ended if press["asked"] <= at <= press["answered"] + 0.005), answer)
    return {
        "total": (press["painted"] - press["key"]) * 1000,
        "editor": (press["asked"] - press["key"]) * 1000,
        "server": answer - engine,
        "engine": engine,
        "paint": (press["painted"] - press["answered"]) * 1000,
    }


def main() -> int:
    """Prints what was measured. Exit status 1 if no editor was."""
    parser = argparse.ArgumentParser("python -m tests.editors.bench", description=__doc__)
    parser.add_argument("--editor", choices=("neovim", "vscode"), help="measure only this one")
    parser.add_argument("--keystrokes", type=positive_int, default=20, metavar="N", help="each (default: %(default)s)")
    parser.add_argument("--model", default="embedded", metavar="ID_OR_FOLDER", help="the model (default: embedded)")
    result = measure(parser.parse_args())
    print(json.dumps(result))
    return 0 if any("ratio" in each for each in result["editors"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())

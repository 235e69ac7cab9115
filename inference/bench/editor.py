"""`infill-ls bench editor`: from a key press to visible ghost text in real editors, and where the time goes.

    editor   key press to request: the editor's own delay before it asks (Neovim waits 200 ms)
    server   request to answer, less the engine: the server's debounce (a setting), carving, fitting, both sockets
    engine   the worker's request: encoding, denoising, ranking
    paint    answer to the screen with the ghost text drawn

Each key differs from the next character of the suggestion shown: one that agreed would need no model. VS Code needs a
checkout of the repository. The last line of output is one JSON object. Times are in milliseconds.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from inference.bench import editor_nvim
from inference.bench.editor_nvim import CannotRunError
from inference.models.catalogue import names_no_folder

ROOT = Path(__file__).resolve().parents[2]
VSCODE = ROOT / "tests" / "editors" / "vscode" / "bench.py"
INSTALLED = ROOT / ".editors" / "bin"
"""`make test-editors` installs editors here."""


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
        return editor_nvim.measure(path, Path(folder), keystrokes, model)


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


def argument_parser() -> argparse.ArgumentParser:
    """The benchmark's flags."""
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

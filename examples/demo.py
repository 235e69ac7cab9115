"""The main job on real code: files with holes in four languages, filled by a real model, shown as diffs.

Runs the commands a user would run: `infill-ls models pull` once, which takes 491 MB, then `infill-ls fill`. Without a
network the small embedded model fills them.
"""

import argparse
import difflib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
INFILL_LS = (sys.executable, "-m", "lsp_server.cli")
MODEL, AUTO, EMBEDDED = "qwen2.5-coder-0.5b", "auto", "embedded"
RUNS = (
    ("Python, the rest of a line", "paths.py", ("--at", "17:20")),
    ("Python, three holes together", "report.py", ()),
    ("TypeScript", "cart.ts", ()),
    ("Go", "words.go", ()),
    ("Rust", "stack.rs", ()),
)


def pull() -> None:
    """Pulls the real model where it is not here yet."""
    print(f"Model: {MODEL}. It is downloaded once, from its hub, and checked.\n", flush=True)
    subprocess.run([*INFILL_LS, "models", "pull", MODEL], check=False)


def load(model: str) -> bool:
    """Loads the model, which for `auto` is the best one here. Whether it is a real one."""
    print("\nLoading the model: a worker that your editors share for as long as it is used.", flush=True)
    command = [*INFILL_LS, "worker", "--model", model]
    loaded = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if loaded.returncode:
        sys.exit(loaded.returncode)  # its own message has said why
    is_real = not loaded.stdout.startswith(f"{EMBEDDED} on ")
    if not is_real and model == AUTO:
        print("\nWithout a real one the small embedded model fills the holes: expect less.", flush=True)
    return is_real


def fill(file: Path, options: tuple[str, ...]) -> dict[str, Any]:
    """What `infill-ls fill --json` answers. Ends the demo where it fails; its own message has said why."""
    command = [*INFILL_LS, "fill", str(file), "--json", "--seed", "1", "--deadline-ms", "60000", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def show(title: str, file: Path, options: tuple[str, ...]) -> bool:
    """Prints one run as a diff with its numbers; whether every hole got text."""
    answer = fill(file, options)
    best = answer["candidates"][0]
    print(f"\n== {title}: {file.name} ==")
    old = file.read_text("utf-8").splitlines(keepends=True)
    for line in difflib.unified_diff(old, answer["result"].splitlines(keepends=True), n=1):
        colour = {"+": "\033[32m", "-": "\033[31m"}.get(line[:1], "") if sys.stdout.isatty() else ""
        sys.stdout.write(f"{colour}{line}{colour and chr(27) + '[0m'}")
    print(f"{best['tokens']} tokens, {answer['ms']:.0f} ms ({answer['model']} on {answer['device']})", flush=True)
    return all(hole["text"].strip() for hole in answer["holes"])


def main() -> int:
    """Exit status 0 if every hole of every run got text."""
    parser = argparse.ArgumentParser(description="Fill the holes of the files beside this one.")
    parser.add_argument("--model", help="fill with this model, and pull none")
    requested = parser.parse_args().model
    if requested is None:
        pull()
    model = requested or AUTO
    runs = RUNS if load(model) else RUNS[:2]  # the embedded one has learnt Python alone
    filled = [show(title, HERE / name, (*options, "--model", model)) for title, name, options in runs]
    if not all(filled):
        print("a hole was left empty", file=sys.stderr)
    return 0 if all(filled) else 1


if __name__ == "__main__":
    sys.exit(main())

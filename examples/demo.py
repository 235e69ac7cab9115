"""The main job on real code: three files with holes, filled by the model, shown as diffs.

Runs the command a user would run, `infill-ls fill`, and shows what it answers.
"""

import difflib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RUNS = (
    ("The rest of a line", "paths.py", ("--at", "17:20")),
    ("An empty function body", "paths.py", ("--at", "21:47")),
    ("Three holes, filled together", "report.py", ()),
)


def fill(file: Path, options: tuple[str, ...]) -> dict[str, Any]:
    """What `infill-ls fill --json` answers. Ends the demo where it fails; its own message has said why."""
    command = [sys.executable, "-m", "lsp_server.cli", "fill", str(file), "--json", "--seed", "1", *options]
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
    before = file.read_text("utf-8").splitlines(keepends=True)
    sys.stdout.writelines(difflib.unified_diff(before, answer["result"].splitlines(keepends=True), n=2))
    print(f"{best['steps']} steps, {best['tokens']} tokens, {answer['ms']:.0f} ms (model {answer['model']})")
    return all(hole["text"].strip() for hole in answer["holes"])


def main() -> int:
    """Exit status 0 if every hole of every run got text."""
    print("infill-ls demo: the embedded model (small, on the CPU) fills holes, seeing both sides of each.")
    filled = [show(title, HERE / name, options) for title, name, options in RUNS]
    if not all(filled):
        print("a hole was left empty", file=sys.stderr)
    return 0 if all(filled) else 1


if __name__ == "__main__":
    sys.exit(main())

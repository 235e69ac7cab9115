"""`make release-check`: builds all that a release publishes into dist/, and uses it as a new user would.

The wheel goes into an empty environment and fills the demo's first hole there; the extension goes into a real VS Code,
where that server's ghost text is accepted with Tab. Needs a network, and two gigabytes for torch.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
VSIX = ROOT / "editors" / "vscode" / "dist" / "infill-ls.vsix"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
PROGRAMS = "Scripts" if os.name == "nt" else "bin"


def run(*words: object, **variables: str) -> str:
    """The output of a command. Ends the check where it fails; its own message has said why."""
    print("$", *words, file=sys.stderr, flush=True)
    environment = {**os.environ, **variables}
    done = subprocess.run([*map(str, words)], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{words[0]} failed: {done.stdout[-2_000:]}")
    return done.stdout


def environment_in(folder: Path, *requirements: object) -> Path:
    """The programs of a new environment with these packages alone."""
    venv.create(folder, with_pip=True)
    programs = folder / PROGRAMS
    run(programs / "python", "-m", "pip", "install", "--quiet", "-c", "constraints.txt", *requirements)
    return programs


def build(scratch: Path) -> Path:
    """The wheel; beside it the source, the extension and their checksums."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(environment_in(scratch / "build", "build", "hatchling") / "python", "-m", "build", "--outdir", DIST)
    shutil.copy(VSIX, DIST / f"infill-ls-{VERSION}.vsix")
    files = sorted(DIST.iterdir())
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (DIST / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
    (wheel,) = DIST.glob(f"infill_ls-{VERSION}-*.whl")
    return wheel


def main() -> int:
    """Exit status 0 if all of it works."""
    with TemporaryDirectory(prefix="release-") as name:
        wheel = build(Path(name))
        server = environment_in(Path(name) / "user", f"{wheel}[http]") / "infill-ls"
        runtime = Path(name) / "run"
        runtime.mkdir(mode=0o700)
        assert run(server, "--version").startswith(f"infill-ls {VERSION} (commit ")
        asked = ("fill", "examples/paths.py", "--at", "17:20", "--json", "--deadline-ms", "60000")
        filled = json.loads(run(server, *asked, INFILL_LS_RUNTIME_DIR=str(runtime)))
        print(f"the wheel's server fills the demo's first hole with {filled['holes'][0]['text']!r}")
        assert filled["holes"][0]["text"].strip()
        run(server, "worker", "--stop", INFILL_LS_RUNTIME_DIR=str(runtime))
        shown = (sys.executable, "-m", "pytest", "tests/editors/vscode", "-k", "suggestion_is_accepted_with_tab")
        print(run(*shown, INFILL_TEST_SERVER=str(server), INFILL_TEST_EDITORS_ALL="1"))
    print(f"{VERSION} is ready in {DIST}: {', '.join(sorted(file.name for file in DIST.iterdir()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

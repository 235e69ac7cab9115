"""The places of the editors, their configuration and their programs, and the user data an editor under test may see."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[2]
EDITORS = ROOT / "editors"
INSTALLED = Path(os.environ.get("INFILL_TEST_EDITORS", ROOT / ".editors"))
"""The folder that `install.sh` filled."""
PATIENCE_S = 120.0
"""How long anything may take. Only a test that fails waits so long; a busy machine or a slow one needs much of it."""
_TICK_S = 0.05
T = TypeVar("T")


def program(name: str) -> str | None:
    """The path of an editor: the one that was installed for the tests, else the one on PATH."""
    return shutil.which(name, path=str(INSTALLED / "bin")) or shutil.which(name)


def environment(home: Path) -> dict[str, str]:
    """A user without any settings, with `infill-ls` on PATH and everything they have in `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "TMUX", "NVIM", "LC_"))}
    found = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "DATA", "STATE", "CACHE")}
    path = os.pathsep.join([str(INSTALLED / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    found["HF_HOME"] = str(home / "models")  # else a model that one user pulls is there for all
    return {**kept, **found, "HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TERM": "xterm-256color"}


def share_package_index(home: Path) -> None:
    """A new home takes packages from where this machine does."""
    settings = Path.home() / ".config" / "pip"
    if settings.is_dir():
        (home / "config").mkdir(exist_ok=True)
        (home / "config" / "pip").symlink_to(settings)


def leave_download(home: Path, offer: str) -> None:
    """Leaves a pull of the model that `offer` names, cut off at its end: it goes on where no hub is reached, too."""
    [name] = re.findall(r"qwen2\.5-coder-[\d.]+b", offer)
    fetched = home / "fetched"
    command = [sys.executable, "-m", "tests.real.get_model", name]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "HF_HOME": str(fetched)}, check=True)
    [file] = fetched.glob("infill-ls/*/*.gguf")
    folder = home / "models" / "infill-ls" / name
    folder.mkdir(parents=True, exist_ok=True)
    file.rename(folder / f"{file.name}.part")


def until(found: Callable[[], T], what: str, patience_s: float = PATIENCE_S) -> T:
    """The first value of `found()` that is true; fails with `what` did not happen."""
    give_up = time.monotonic() + patience_s
    while not (value := found()):
        assert time.monotonic() < give_up, f"did not happen in {patience_s:.0f} s: {what}"
        time.sleep(_TICK_S)
    return value

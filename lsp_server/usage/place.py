"""The location of the numbers: one file in its own private folder, in the user's folder for state."""

import os
import stat
from pathlib import Path

import platformdirs

from lsp_server.worker.paths import APP, FOLDER_VARIABLE, runtime_folder, why_not_private

STATE_VARIABLE = "INFILL_LS_STATE_DIR"


def usage_file() -> Path:
    """The file, existing or not: in a folder that the environment names, otherwise in the system's folder for state."""
    if chosen := os.environ.get(STATE_VARIABLE):
        folder = Path(chosen).expanduser().absolute()
    elif os.environ.get(FOLDER_VARIABLE):
        folder = runtime_folder()
    else:
        folder = platformdirs.user_state_path(APP, appauthor=False)
    return folder / "usage" / "usage.sqlite"


def make_folder(file: Path) -> None:
    """Creates the private folder of `file`. Raises OSError, whose text names the problem and the remedy."""
    file.parent.parent.mkdir(parents=True, exist_ok=True)
    if trouble := why_not_private(file.parent, STATE_VARIABLE):
        raise OSError(trouble)
    file.parent.mkdir(mode=0o700, exist_ok=True)


def make_file(file: Path) -> None:
    """Creates `file` if missing; only its owner can read it. Raises OSError."""
    os.close(os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))
    if os.name != "nt" and stat.S_IMODE(file.stat().st_mode) & 0o077:
        file.chmod(0o600)

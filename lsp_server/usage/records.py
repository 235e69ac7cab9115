"""What is recorded, and where."""

import os
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import platformdirs

from lsp_server.worker.paths import APP, FOLDER_VARIABLE, runtime_folder

STATE_VARIABLE = "INFILL_LS_STATE_DIR"


class Key(NamedTuple):
    """What a counter counts: an event of answers on one (local) day, in one language, that came in one way."""

    day: str
    language: str
    trigger: str
    event: str


class Pair(NamedTuple):
    """One request to two models, and the similarity of each one's text to what was saved (0 to 1; None: not known)."""

    day: str
    language: str
    main_model: str
    other_model: str
    outcome: str
    main_ms: float
    other_ms: float | None = None
    main_similarity: float | None = None
    other_similarity: float | None = None


def usage_file() -> Path:
    """The file, existing or not: in a folder that the environment names, otherwise in the system's folder for state."""
    if chosen := os.environ.get(STATE_VARIABLE):
        folder = Path(chosen).expanduser().absolute()
    elif os.environ.get(FOLDER_VARIABLE):
        folder = runtime_folder()
    else:
        folder = platformdirs.user_state_path(APP, appauthor=False)
    return folder / "usage" / "counters.sqlite"


def today() -> str:
    """The local day."""
    return datetime.now().astimezone().date().isoformat()

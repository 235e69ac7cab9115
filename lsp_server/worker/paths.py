"""The files that lead a client to its worker, in a private folder, named by the options that choose the worker."""

import os
import tempfile
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import platformdirs

from inference.messages import WorkerOptions
from lsp_server.worker.options import resolved

APP = "infill-ls"
FOLDER_VARIABLE = "INFILL_LS_RUNTIME_DIR"
MAX_SOCKET_PATH_BYTES = 100
"""Unix allows 104 to 108, minus the prefix of a folder when it is bound."""


@dataclass(frozen=True)
class WorkerPaths:
    """The files of one worker. `socket` is its socket; with TCP, a file that names the port."""

    socket: Path
    log: Path

    @property
    def folder(self) -> Path:
        """The private folder of the sockets."""
        return self.socket.parent

    @property
    def starting(self) -> Path:
        """Locked by the client that is starting this worker."""
        return self.socket.with_suffix(".starting")

    @property
    def errors(self) -> Path:
        """The worker's stderr: why it could not start, or where it crashed."""
        return self.socket.with_suffix(".err")


def paths_of(options: WorkerOptions) -> WorkerPaths:
    """The files of the worker of `options`, running or not. Creates nothing."""
    return paths_at(runtime_folder() / f"{resolved(options).key}.sock")


def paths_at(socket: Path) -> WorkerPaths:
    """The files of the worker with this socket."""
    return WorkerPaths(socket, log_folder() / f"worker-{socket.stem}.log")


def runtime_folder() -> Path:
    """The folder of the sockets: `INFILL_LS_RUNTIME_DIR`, otherwise the system's runtime folder for this user."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    return Path(chosen).expanduser().absolute() if chosen else _systems_folder()


@cache
def _systems_folder() -> Path:
    """The same without the variable. Cached, because platformdirs warns only once that it has to guess."""
    with warnings.catch_warnings(record=True) as guesses:
        warnings.simplefilter("always")
        folder = platformdirs.user_runtime_path(APP, appauthor=False)
    return _short_folder() if guesses else folder  # platformdirs warns if the system names no such folder


def socket_folders() -> tuple[Path, ...]:
    """Every folder that may hold a socket of this user: the chosen one, or all that the system may name."""
    folder = runtime_folder()
    return (folder,) if os.environ.get(FOLDER_VARIABLE) else tuple(dict.fromkeys((folder, _short_folder())))


def log_folder() -> Path:
    """The folder of the log files; `INFILL_LS_RUNTIME_DIR` holds everything if set."""
    if os.environ.get(FOLDER_VARIABLE):
        return runtime_folder()
    return platformdirs.user_log_path(APP, appauthor=False)


def _short_folder() -> Path:
    """The folder where the system names none."""
    owner = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return Path(tempfile.gettempdir()) / f"{APP}-{owner}"

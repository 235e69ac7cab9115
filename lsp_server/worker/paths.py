"""The files that lead a client to its worker, in a private folder, named by the options that choose the worker."""

import os
import tempfile
from dataclasses import dataclass
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
    """The folder of the sockets: `INFILL_LS_RUNTIME_DIR`, otherwise ours in the user's runtime folder."""
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen).expanduser().absolute()
    named = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{_owner()}")
    return named / APP if named.is_dir() else _temporary_folder()


def socket_folders() -> tuple[Path, ...]:
    """Every folder that may hold a socket of this user: the chosen one, or all that the system may name."""
    folder = runtime_folder()
    return (folder,) if os.environ.get(FOLDER_VARIABLE) else tuple(dict.fromkeys((folder, _temporary_folder())))


def log_folder() -> Path:
    """The folder of the log files; `INFILL_LS_RUNTIME_DIR` holds everything if set."""
    if os.environ.get(FOLDER_VARIABLE):
        return runtime_folder()
    return platformdirs.user_log_path(APP, appauthor=False)


def _temporary_folder() -> Path:
    """The folder of the sockets where the system names none."""
    return Path(tempfile.gettempdir()) / f"{APP}-{_owner()}"


def _owner() -> int | str:
    return os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")

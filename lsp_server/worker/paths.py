"""The files by which a client finds its worker, in a private folder, named after the options that choose the worker;
and the processes of workers, which are found by their command lines even if they do not answer.
"""

import asyncio
import os
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import psutil

from inference.messages import WorkerOptions

APP_NAME = "infill-ls"
FOLDER_VARIABLE = "INFILL_LS_RUNTIME_DIR"
MAX_SOCKET_PATH_BYTES = 100
"""Unix allows 104 to 108, minus the prefix of a folder when it is bound."""
_MAX_TEMPORARY_BYTES = 55
"""For our folder and the name of a socket. That of macOS has 48."""


@dataclass(frozen=True)
class WorkerPaths:
    """The files of one worker. `socket` is its socket; with TCP, a file that names the port."""

    socket: Path
    log: Path

    @property
    def folder(self) -> Path:
        return self.socket.parent

    @property
    def start_lock(self) -> Path:
        """Locked by the client that is starting this worker."""
        return self.socket.with_suffix(".starting")

    @property
    def stderr_file(self) -> Path:
        """The worker's stderr: why it could not start, or where it crashed."""
        return self.socket.with_suffix(".err")


def paths_of(options: WorkerOptions) -> WorkerPaths:
    """The files of the worker of `options`, running or not. Creates nothing."""
    return paths_of_socket(runtime_folder() / f"{options.worker_name}.sock")


def paths_of_socket(socket: Path) -> WorkerPaths:
    logs = configured_runtime_folder() or platformdirs.user_log_path(APP_NAME, appauthor=False)
    return WorkerPaths(socket, logs / f"worker-{socket.stem}.log")


def configured_runtime_folder() -> Path | None:
    """`INFILL_LS_RUNTIME_DIR`, which then holds sockets, logs and records alike; None: it is not set."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    return Path(os.path.expanduser(chosen)).absolute() if chosen else None  # noqa: PTH111 - raises for no such user


def runtime_folder() -> Path:
    """The folder of the sockets: the chosen one, otherwise ours in the user's runtime folder."""
    if chosen := configured_runtime_folder():
        return chosen
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{_owner()}")
    return base / APP_NAME if os.path.isdir(base) else _temporary_folder()  # noqa: PTH112 - raises for a long name


def socket_folders() -> tuple[Path, ...]:
    """Every folder that may hold a socket of this user: the chosen one, or all that the system may name."""
    folder = runtime_folder()
    return (folder,) if configured_runtime_folder() else tuple(dict.fromkeys((folder, _temporary_folder())))


def _temporary_folder() -> Path:
    """The folder of the sockets where the system names none, or one too long for a socket."""
    try:
        folder = tempfile.gettempdir()
    except OSError:  # none can be written; the disk may be full
        folder = ""
    if not folder or (os.name != "nt" and len(os.fsencode(folder)) > _MAX_TEMPORARY_BYTES):
        folder = "/tmp"  # noqa: S108 - our folder in it must be private
    return Path(folder) / f"{APP_NAME}-{_owner()}"


def _owner() -> int | str:
    return os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")


_MAX_LINE_BYTES = 1 << 22


def child_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module as a child of this process and ends with it, even if it is killed."""
    # -P: the current folder may hold modules of the same name, and is not to be trusted
    return [sys.executable, "-P", "-m", "inference.serving.child", str(os.getpid()), module, *arguments]


async def run_child(on_line: Callable[[bytes], None], module: str, *arguments: str) -> tuple[int, str]:
    """Runs a module as a child of this process, and passes on each line that it prints. Returns its exit status and
    what it wrote to stderr. Cancelling this ends the child. Raises OSError.
    """
    command = child_command(module, *arguments)
    process = await asyncio.create_subprocess_exec(
        *command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, limit=_MAX_LINE_BYTES
    )
    assert process.stdout and process.stderr
    errors = asyncio.create_task(process.stderr.read())
    try:
        async for line in process.stdout:
            on_line(line)
        return await process.wait(), (await errors).decode(errors="replace").strip()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def worker_processes() -> dict[Path, list[int]]:
    """Every worker's process by its socket, oldest first. Takes some milliseconds."""
    started: dict[Path, list[tuple[float, int]]] = {}
    for process in psutil.process_iter(["cmdline", "create_time"]):
        command = process.info["cmdline"] or ()
        if "inference.worker" in command and "--socket" in command[:-1]:
            socket = Path(command[command.index("--socket") + 1])
            started.setdefault(socket, []).append((process.info["create_time"] or 0.0, process.pid))
    return {socket: [pid for _, pid in sorted(processes)] for socket, processes in started.items()}


def find_worker_pid(paths: WorkerPaths) -> int | None:
    """The oldest process started as the worker of `paths`, which may lead to another's; None if there is none."""
    processes = worker_processes()
    pids = processes.get(paths.socket) or processes.get(Path(os.path.realpath(paths.socket))) or []
    return pids[0] if pids else None


def is_suspended(pid: int | None) -> bool:
    """Whether the process exists but is stopped, as by SIGSTOP, Ctrl-Z or a debugger: it will not resume by itself."""
    try:
        return pid is not None and psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    except psutil.Error:
        return False

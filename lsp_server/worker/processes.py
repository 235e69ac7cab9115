"""Finds worker processes by their command lines, even when a worker does not answer."""

from pathlib import Path

import psutil

from lsp_server.worker.paths import WorkerPaths


def worker_processes() -> dict[Path, list[int]]:
    """Every worker's process by its socket, oldest first. Takes some milliseconds."""
    found: dict[Path, list[tuple[float, int]]] = {}
    for process in psutil.process_iter(["cmdline", "create_time"]):
        words = process.info["cmdline"] or ()
        if "inference.worker" in words and "--socket" in words[:-1]:
            socket = Path(words[words.index("--socket") + 1])
            found.setdefault(socket, []).append((process.info["create_time"] or 0.0, process.pid))
    return {socket: [pid for _, pid in sorted(processes)] for socket, processes in found.items()}


def pid_of(paths: WorkerPaths) -> int | None:
    """The oldest process started as the worker of `paths`; None if there is none."""
    return next(iter(worker_processes().get(paths.socket, ())), None)


def is_stopped(pid: int | None) -> bool:
    """Whether the process exists but is stopped, as by SIGSTOP, Ctrl-Z or a debugger: it will not resume by itself."""
    try:
        return pid is not None and psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    except psutil.Error:
        return False

"""Finds worker processes by their command lines, even when a worker does not answer; runs children of this one."""

import os
import sys
from pathlib import Path

import psutil

from lsp_server.worker.paths import WorkerPaths


def child_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module as a child of this process and ends with it, even if it is killed."""
    # -P: the current folder may hold modules of the same name, and is not to be trusted
    return [sys.executable, "-P", "-m", "inference.serving.child", str(os.getpid()), module, *arguments]


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
    """The oldest process started as the worker of `paths`, which may lead to another's; None if there is none."""
    found = worker_processes()
    pids = found.get(paths.socket) or found.get(paths.socket.resolve()) or []
    return pids[0] if pids else None


def is_stopped(pid: int | None) -> bool:
    """Whether the process exists but is stopped, as by SIGSTOP, Ctrl-Z or a debugger: it will not resume by itself."""
    try:
        return pid is not None and psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    except psutil.Error:
        return False

"""Find the processes of workers by their command lines: a worker that cannot be asked is still there."""

from pathlib import Path

import psutil

from lsp_server.worker.paths import WorkerPaths


def worker_processes() -> dict[Path, list[int]]:
    """Every worker's process by its socket; the one that has run longest comes first. Takes some milliseconds."""
    found: dict[Path, list[tuple[float, int]]] = {}
    for process in psutil.process_iter(["cmdline", "create_time"]):
        words = process.info["cmdline"] or ()
        if "inference.worker" in words and "--socket" in words[:-1]:
            socket = Path(words[words.index("--socket") + 1])
            found.setdefault(socket, []).append((process.info["create_time"] or 0.0, process.pid))
    return {socket: [pid for _, pid in sorted(processes)] for socket, processes in found.items()}


def pid_of(paths: WorkerPaths, *, other_than: int | None = None) -> int | None:
    """The process that was started as the worker of `paths`, the first of them; None where there is none."""
    return next((pid for pid in worker_processes().get(paths.socket, ()) if pid != other_than), None)


def is_stopped(pid: int | None) -> bool:
    """Whether the process is there and stopped, as by SIGSTOP, Ctrl-Z or a debugger: it will not go on by itself."""
    try:
        return pid is not None and psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    except psutil.Error:
        return False

"""What goes wrong with a worker, in words for the user and for the log."""

import traceback
from contextlib import suppress

import psutil

from inference.messages import ErrorCode
from lsp_server.worker.paths import WorkerPaths


class WorkerFailure(Exception):
    """A request that failed. str() is fit to be shown to a user; `code` says what kind of failure it is."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class SilentError(WorkerFailure):
    """A worker is there but does not answer: it is stopped, swapped out, or it hangs.

    `pid` is that of its process; None where no such process was found.
    """

    def __init__(self, paths: WorkerPaths, pid: int | None = None) -> None:
        self.paths = paths
        self.pid = pid or pid_of(paths)
        who = f"The worker (process {self.pid})" if self.pid else f"What listens at {paths.socket}"
        stopped = f"; it is stopped, and goes on after: kill -CONT {self.pid}" if is_stopped(self.pid) else ""
        how = f"kill -9 {self.pid}" if self.pid else f"find its process and end it, or remove {paths.socket}"
        super().__init__(ErrorCode.STOPPED, f"{who} does not answer{stopped}; to end it: {how} (log: {paths.log})")


def pid_of(paths: WorkerPaths) -> int | None:
    """The process that was started as the worker of `paths`. It cannot be asked, but its command line tells."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or ()
        if "inference.worker" in words and str(paths.socket) in words:
            return int(process.pid)
    return None


def is_stopped(pid: int | None) -> bool:
    """Whether the process is there and stopped, as by SIGSTOP, Ctrl-Z or a debugger: it will not go on by itself."""
    with suppress(psutil.Error):
        return pid is not None and psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    return False


def traceback_of(error: BaseException) -> str:
    """Where an unexpected error came from, for the log. Leaves out its own words: they may quote a document."""
    return f"{type(error).__name__}\n{''.join(traceback.format_tb(error.__traceback__))}"

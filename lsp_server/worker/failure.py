"""Failures of a worker, worded for the user and for the log."""

import traceback

from inference.messages import ErrorCode
from lsp_server.worker.paths import WorkerPaths, find_worker_pid, is_suspended

_LOGGED_CALLS = 30
"""The innermost frames; an endless recursion has a thousand."""


class WorkerError(Exception):
    """A request failed. str() is fit for the user; `code` is the kind of failure."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class WorkerUnresponsiveError(WorkerError):
    """A worker exists but does not answer: it is stopped, swapped out, or hung. `pid` is its process, if found."""

    def __init__(self, paths: WorkerPaths, pid: int | None = None) -> None:
        self.paths = paths
        self.pid = pid or find_worker_pid(paths)
        subject = f"The worker (process {self.pid})" if self.pid else f"What listens at {paths.socket}"
        missing = "" if paths.socket.exists() else f": {paths.socket} is gone"
        resume_hint = f"; it is stopped; resume it with: kill -CONT {self.pid}" if is_suspended(self.pid) else ""
        remedy = f"kill -9 {self.pid}" if self.pid else f"find its process and end it, or remove {paths.socket}"
        advice = f"to end it: {remedy} (log: {paths.log})"
        super().__init__(ErrorCode.STOPPED, f"{subject} does not answer{missing}{resume_hint}; {advice}")


class StillLoadingError(WorkerError):
    """The worker did not load its model in time. It is still loading."""

    def __init__(self, after_ms: float, doing: str) -> None:
        loads = f"the model is still loading{doing and f' ({doing})'}"
        super().__init__(ErrorCode.STOPPED, f"no answer within {after_ms:.0f} ms: {loads}; try again in a moment")


def traceback_without_message(error: BaseException) -> str:
    """The origin of an unexpected error, for the log. Omits its message, which may quote a document."""
    return f"{type(error).__name__}\n{''.join(traceback.format_tb(error.__traceback__, limit=-_LOGGED_CALLS))}"

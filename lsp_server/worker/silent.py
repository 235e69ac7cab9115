"""A worker that is there and does not answer: stopped, swapped out, or hung."""

import psutil

from inference.messages import ErrorCode
from lsp_server.worker.failure import WorkerFailure
from lsp_server.worker.paths import WorkerPlace


class SilentError(WorkerFailure):
    """Something listens at `place` and says nothing. `pid` is None where the process was not found."""

    def __init__(self, place: WorkerPlace) -> None:
        self.place = place
        self.pid = pid_of(place)
        who = f"The worker (process {self.pid})" if self.pid else f"What listens at {place.socket}"
        how = f"kill -9 {self.pid}" if self.pid else f"find its process and end it, or remove {place.socket}"
        super().__init__(ErrorCode.STOPPED, f"{who} does not answer; to end it: {how} (log: {place.log})")


def pid_of(place: WorkerPlace) -> int | None:
    """The process that was started as the worker of `place`: it cannot be asked, but its command line tells."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or ()
        if "inference.worker" in words and str(place.socket) in words:
            return int(process.pid)
    return None

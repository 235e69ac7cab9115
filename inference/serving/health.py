"""Judges by the requests how a worker does: whether its server answers, and whether its suggestions come in time."""

import time
from collections import deque

import msgspec

from inference.messages import Done, ErrorCode, Failed, Outcome, Request, Status
from inference.remote import address
from inference.serving.jobs import JobEvent

SILENT_REQUESTS = 3
"""Report after this many requests in a row got no reply before their deadline."""
_LONGEST_PROBLEM = 1_000
_LATEST = 10
"""How many automatic requests count for punctuality, and the fewest that say anything."""
_FEWEST = 4
_TOO_SLOW = (
    "{late} of the last {count} suggestions were cut short or came to nothing, because the model needs longer than "
    "deadlineMs.automatic: raise it, or choose a smaller model"
)


class Health:
    def __init__(self, model: str) -> None:
        self._url = ""
        """The server that gets the text, without secrets; empty for a local model."""
        if address.is_url(model):
            self._url = address.parse(model).url
        self._up_since: float | None = None
        self._problem = ""
        self._silent = 0
        self._late: deque[bool] = deque(maxlen=_LATEST)

    def answered(self) -> None:
        self._problem = ""
        self._up_since = self._up_since or time.monotonic()
        self._silent = 0

    def heard(self, request: Request, event: JobEvent) -> bool:
        """A request got a reply; returns whether the server's state changed: it failed, or is back."""
        before = self._problem, self._up_since
        match event:
            case Failed():
                if event.code is ErrorCode.SERVER:
                    self._fails(event.message)
            case Done(outcome=Outcome.CANCELLED):
                pass
            case Done(outcome=Outcome.DEADLINE) if not event.stats.steps:
                self._silent += bool(event.stats.canvases)  # those that were sent
                if self._silent >= SILENT_REQUESTS:
                    said = f"has not answered the last {SILENT_REQUESTS} requests in time; typing continues without it"
                    self._fails(f"the server {self._url} {said}; check that it runs, or change `model`")
            case _:
                self.answered()
        if request.quick and isinstance(event, Done) and event.outcome is not Outcome.CANCELLED:
            self._late.append(event.outcome is Outcome.DEADLINE)
        return bool(self._url) and before != (self._problem, self._up_since)

    def _fails(self, problem: str) -> None:
        self._problem = "".join(c if c.isprintable() else " " for c in problem)[:_LONGEST_PROBLEM]
        self._up_since = None

    def in_status(self, status: Status) -> Status:
        """The same status with the server's health, and with a note if most suggestions were late."""
        if self._url:
            up_s = 0.0 if self._up_since is None else time.monotonic() - self._up_since
            status = msgspec.structs.replace(status, server=self._url, server_up_s=up_s, server_problem=self._problem)
        late = sum(self._late)
        count = len(self._late)
        if count < _FEWEST or late * 2 < count:
            return status
        slow = _TOO_SLOW.format(late=late, count=count)
        return msgspec.structs.replace(status, note=f"{status.note}; {slow}" if status.note else slow)

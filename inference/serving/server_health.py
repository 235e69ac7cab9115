"""Judges by the requests how a worker does: whether its server answers, and whether its suggestions come in time."""

import time
from collections import deque

import msgspec

from inference.messages import Done, ErrorCode, Failed, InfillRequest, Outcome, Request, Stats, Status
from inference.remote import address
from inference.serving.infiller import JobEvent

SILENT_REQUESTS = 3
"""Report after this many requests in a row got no reply before their deadline."""
_LONGEST_PROBLEM = 1_000
_LATEST, _FEWEST = 10, 4
_TOO_SLOW = (
    "{late} of the last {count} suggestions were cut short or came to nothing, because the model needs longer than "
    "deadlineMs.automatic: raise it, or choose a smaller model"
)


class ServerHealth:
    """The health of the server that `model` names. A local model has none."""

    def __init__(self, model: str) -> None:
        self._url = _url(model) if address.is_url(model) else ""
        self._up_since: float | None = None
        self._problem = ""
        self._silent, self._silent_since = 0, 0.0

    def answered(self) -> bool:
        """The server has answered; returns whether that is news."""
        news = bool(self._problem) or self._up_since is None
        self._problem, self._up_since, self._silent = "", self._up_since or time.monotonic(), 0
        return news

    def heard(self, event: JobEvent) -> bool:
        """A request got a reply; returns whether the server's state changed: it failed, or is back."""
        if not self._url:
            return False
        if isinstance(event, Failed) and event.code is ErrorCode.SERVER:
            return self._fails(event.message)
        if isinstance(event, Done) and event.outcome is Outcome.DEADLINE and not event.stats.steps:
            return bool(event.stats.canvases) and self._kept_silent(event.stats)
        answers = not isinstance(event, Done | Failed) or (
            isinstance(event, Done) and event.outcome is not Outcome.CANCELLED
        )
        return answers and self.answered()

    def _kept_silent(self, stats: Stats) -> bool:
        """A request got no reply; returns whether that is news."""
        if not self._silent:
            self._silent_since = time.monotonic() - stats.ms / 1000
        self._silent += 1
        if self._silent < SILENT_REQUESTS:
            return False
        silent_s = time.monotonic() - self._silent_since
        knew = "has not answered for" in self._problem
        what = "typing continues without it; check that it runs, or change `model`"
        self._fails(f"the server {self._url} has not answered for {silent_s:.0f} s; {what}")
        return not knew

    def _fails(self, problem: str) -> bool:
        """There is a problem; returns whether it is a new one."""
        shown = "".join(c if c.isprintable() else " " for c in problem)[:_LONGEST_PROBLEM]
        news = shown != self._problem
        self._problem, self._up_since = shown, None
        return news

    def in_status(self, status: Status) -> Status:
        """The same status, with the server's health."""
        if not self._url:
            return status
        up_s = 0.0 if self._up_since is None else time.monotonic() - self._up_since
        return msgspec.structs.replace(status, server=self._url, server_up_s=up_s, server_problem=self._problem)


def _url(model: str) -> str:
    """Where text goes, without secrets; empty if it goes nowhere."""
    try:
        return address.parse(model).url
    except address.AddressError:
        return ""


class Punctuality:
    """How many of the latest automatic requests were cut short by their deadline."""

    def __init__(self) -> None:
        self._late: deque[bool] = deque(maxlen=_LATEST)

    def heard(self, request: Request, event: JobEvent) -> None:
        """The reply to a request."""
        if (
            isinstance(request, InfillRequest)
            and request.quick
            and isinstance(event, Done)
            and event.outcome is not Outcome.CANCELLED
        ):
            self._late.append(event.outcome is Outcome.DEADLINE)

    def in_status(self, status: Status) -> Status:
        """The same status, with a note if most of them were late."""
        late, count = sum(self._late), len(self._late)
        if count < _FEWEST or late * 2 < count:
            return status
        slow = _TOO_SLOW.format(late=late, count=count)
        return msgspec.structs.replace(status, note=f"{status.note}; {slow}" if status.note else slow)

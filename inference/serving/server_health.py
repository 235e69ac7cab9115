"""How the server is that a worker's requests go to, as far as these tell: where, since when it answers, what failed."""

import time

import msgspec

from inference.messages import Candidate, Done, Draft, ErrorCode, Failed, Outcome, Status
from inference.remote import address
from inference.serving.infiller import JobEvent


class ServerHealth:
    """Of the server that `model` names; of a model of this machine there is nothing to tell."""

    def __init__(self, model: str) -> None:
        self._url = _url(model) if address.is_url(model) else ""
        self._up_since: float | None = None
        self._problem = ""

    def answered(self) -> bool:
        """The server has answered; whether that is news."""
        news = bool(self._problem) or self._up_since is None
        self._problem, self._up_since = "", self._up_since or time.monotonic()
        return news

    def heard(self, event: JobEvent) -> bool:
        """What a request was told; whether the server is another than before: it failed, or is back."""
        if not self._url:
            return False
        if isinstance(event, Failed) and event.code is ErrorCode.SERVER:
            news = not self._problem
            self._problem, self._up_since = event.message, None
            return news
        answers = isinstance(event, Draft | Candidate) or (
            isinstance(event, Done) and event.outcome is Outcome.COMPLETE
        )
        return answers and self.answered()

    def in_status(self, status: Status) -> Status:
        """The same status, with how the server is."""
        if not self._url:
            return status
        up_s = 0.0 if self._up_since is None else time.monotonic() - self._up_since
        return msgspec.structs.replace(status, server=self._url, server_up_s=up_s, server_problem=self._problem)


def _url(model: str) -> str:
    """Where text goes, without what must not be shown; empty where it goes nowhere."""
    try:
        return address.parse(model).url
    except address.AddressError:
        return ""

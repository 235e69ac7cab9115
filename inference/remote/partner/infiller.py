"""Fills holes by asking one autoregressive server, with concurrent requests."""

import logging

from inference.engine.middle.question import Windows
from inference.messages import InfillRequest
from inference.remote.client import Client
from inference.remote.meeting import ServedInfiller, Watched
from inference.remote.partner import kinds
from inference.remote.partner.infilling import PartnerInfilling
from inference.remote.partner.kinds import Served
from inference.serving.startup import WorkerArguments

log = logging.getLogger(__name__)


class PartnerInfiller(ServedInfiller):
    """An autoregressive model on a server, as the worker knows it."""

    def __init__(self, client: Client, place: str, arguments: WorkerArguments, served: Served) -> None:
        """`place` is the server's host and port."""
        super().__init__(client, place, arguments)
        self._know(served)

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> Watched:
        """The work on a request. `deadline` is in `time.monotonic()` seconds. Raises RequestError."""
        interface, windows = self._served.interface, self._windows
        steps = PartnerInfilling(self._client, interface, windows, self._learn, request, deadline)
        return Watched(steps, self._meeting.refused)

    def _know(self, served: Served) -> None:
        self._served, self._windows = served, Windows(served.context_tokens)
        self.model, interface = served.shown, served.interface
        self.partner, self.sees_drafts = interface.kind, interface.sees_drafts
        self.context_tokens = interface.context_tokens

    def _learn(self, windows: Windows) -> None:
        """The server accepted these after refusing larger ones, so use them from now on."""
        if windows.context_tokens == self._windows.context_tokens and windows.share < self._windows.share:
            self._windows = windows

    async def _meet_again(self) -> None:
        served = await kinds.meet(self._client, self._arguments.server_model, self._arguments.partner or "auto")
        if (served.name, served.interface.kind) != (self._served.name, self._served.interface.kind):
            log.info("another server answers at %s: it serves %s", self._client.url, served.shown)
        self._know(served)

"""The session's connection to the partner: a separate worker, started when the partner is first asked."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from inference.remote import address
from lsp_server.lsp.worker_connection import WorkerConnection
from lsp_server.settings.launch import partner_options
from lsp_server.settings.schema import Settings
from lsp_server.worker import ClientState, WorkerFailure
from lsp_server.worker.options import problem_of

log = logging.getLogger(__name__)
_KNOWN = (ClientState.READY, ClientState.BUSY)


class PartnerConnection(WorkerConnection):
    """Like the connection to the worker, but shows failures only while the user waits for the partner."""

    def __init__(
        self,
        server: LanguageServer,
        show: Callable[[str, types.MessageType], None],
        notify: Callable[[dict[str, Any]], None],
        settings: Settings,
        *,
        sends_token: bool,
    ) -> None:
        self._waiting = 0
        self._kind = settings.partner.kind
        self._stated_name = settings.partner.model
        super().__init__(server, lambda *what: show(*what) if self._waiting else None, notify)
        self._use(partner_options(settings, sends_token=sends_token))

    @contextmanager
    def asked(self) -> Iterator[None]:
        """While it is open, the user waits for the partner and sees failures."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    @property
    def problem(self) -> str:
        """Why it cannot be asked, or its last failure; empty if all is well."""
        if invalid := problem_of(self.client.options):
            return invalid
        if self.status.state in (ClientState.FAILED, ClientState.BACKING_OFF):
            return self.status.detail
        return self.client.last_status.server_problem if self.client.last_status else ""

    @property
    def name(self) -> str:
        """Its name for users: its model if known, otherwise its address."""
        last = self.client.last_status
        if last is not None and last.model and not address.is_url(last.model):
            return last.model
        return self._stated_name or self.client.options.model.partition("://")[2] or "the partner"

    @property
    def sees_drafts(self) -> bool | None:
        """Whether it sees the text it is to improve; None if not known yet."""
        last = self.client.last_status
        return last.sees_drafts if last is not None and ClientState(last.state.value) in _KNOWN else None

    @property
    def action_title(self) -> str:
        """The kind of request it takes, as far as known: never waits for it."""
        sees = self._kind == "chat" if self.sees_drafts is None else self.sees_drafts
        return f"{'Refine' if sees else 'Rewrite'} with {self.name}"

    def report(self) -> dict[str, Any]:
        """The `partner` entry of the status."""
        last = self.client.last_status
        return {
            "name": self.name,
            "state": self.status.state.value,
            "problem": self.problem,
            "kind": (last.partner if last else "") or self._kind,
            "seesDrafts": self.sees_drafts,
            "server": self.client.options.model,
            "log": self.status.log,
        }

    async def renew(self) -> None:
        """Ends the worker once it has finished its requests. The next one starts another, which rereads the token."""
        async with self._restarts:
            try:
                await self._end_worker()
            except WorkerFailure as failure:
                log.warning("the partner: %s", failure)
            await self._start_over()

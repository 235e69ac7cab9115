"""What refining needs from a session."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from lsp_server.documents.document import Snapshot
from lsp_server.fill.host import Host
from lsp_server.inline.runner import Connection
from lsp_server.inline.service import InlineService


class Partner(Connection, Protocol):
    """The connection to the partner."""

    def asked(self) -> AbstractContextManager[None]:
        """While it is open, the user waits for the partner and sees failures."""


class RefiningHost(Host, Protocol):
    """What refining needs from a session."""

    @property
    def partner_connection(self) -> Partner | None:
        """The partner; None if none is configured."""

    @property
    def inline_services(self) -> Sequence[InlineService]:
        """The services that know the suggestions."""

    def snapshot(self, uri: str) -> Snapshot | None:
        """The current document; None if it may not be filled."""

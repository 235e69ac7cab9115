"""What refining needs from a session."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from inference.messages import Snippet, Status
from lsp_server.documents.document import Document, Snapshot
from lsp_server.inline.runner import Connection
from lsp_server.inline.service import InlineService
from lsp_server.settings.schema import Settings


class Partner(Connection, Protocol):
    """The connection to the partner."""

    def asked(self) -> AbstractContextManager[None]:
        """While it is open, the user waits for the partner and sees failures."""


class RefiningHost(Protocol):
    """What refining needs from a session."""

    documents: dict[str, Document]

    @property
    def partner_connection(self) -> Partner | None:
        """The partner; None if none is configured."""

    @property
    def worker(self) -> Connection:
        """The model that drafts."""

    @property
    def inline_services(self) -> Sequence[InlineService]:
        """The services that know the suggestions."""

    def settings_of(self, uri: str) -> Settings:
        """The settings for a document."""

    def snapshot(self, uri: str) -> Snapshot | None:
        """The current document; None if it may not be filled."""

    async def may_send(self, snapshot: Snapshot) -> bool:
        """Whether a model may see a document."""

    async def context_for(self, snapshot: Snapshot, offset: int, status: Status | None) -> tuple[Snippet, ...]:
        """The text of other files that a model of this status sees."""

"""What refining needs of a session."""

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
        """Inside it the user waits for the partner, and is shown what fails."""


class RefiningHost(Protocol):
    """What is needed of a session."""

    documents: dict[str, Document]

    @property
    def partner_connection(self) -> Partner | None:
        """The partner; None where none is configured."""

    @property
    def worker(self) -> Connection:
        """The model that drafts."""

    @property
    def inline_services(self) -> Sequence[InlineService]:
        """The services that know the suggestions."""

    def settings_of(self, uri: str) -> Settings:
        """The settings for a document."""

    def snapshot(self, uri: str) -> Snapshot | None:
        """A document as it stands; None where it may not be filled."""

    async def may_send(self, snapshot: Snapshot) -> bool:
        """Whether a model may see a document."""

    async def context_for(self, snapshot: Snapshot, offset: int, status: Status | None) -> tuple[Snippet, ...]:
        """What a model of this status is shown of other files."""

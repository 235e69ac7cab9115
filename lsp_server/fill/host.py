"""What next edits, refining and shadow mode need from a session."""

from collections.abc import Mapping
from typing import Protocol

from inference.messages import Snippet, Status
from lsp_server.documents.document import Document, Snapshot
from lsp_server.settings.schema import Settings
from lsp_server.worker import WorkerClient


class Host(Protocol):
    """A session, as far as it concerns them."""

    @property
    def documents(self) -> Mapping[str, Document]:
        """The open documents."""

    @property
    def is_computing(self) -> bool:
        """Whether anything is being computed that a user waits for, or soon may."""

    @property
    def model_client(self) -> WorkerClient:
        """The client of the model's worker."""

    @property
    def model_status(self) -> Status | None:
        """The worker's last status."""

    def settings_of(self, uri: str) -> Settings:
        """The settings for a document."""

    async def may_send(self, snapshot: Snapshot) -> bool:
        """Whether a model may see a document."""

    async def context_for(self, snapshot: Snapshot, offset: int, status: Status | None) -> tuple[Snippet, ...]:
        """The text of other files that a model of this status sees."""

"""What next edits, refining and shadow mode need from a session."""

from collections.abc import Mapping
from typing import Protocol

from inference.messages import Snippet, Status
from lsp_server.documents.document import Document, Snapshot
from lsp_server.settings.resolver import Configuration
from lsp_server.settings.schema import Settings
from lsp_server.worker import WorkerClient


class Host(Protocol):
    """A session, as far as it concerns them. It is computing if a user waits for that, or soon may."""

    @property
    def documents(self) -> Mapping[str, Document]: ...
    @property
    def is_computing(self) -> bool: ...
    @property
    def model_client(self) -> WorkerClient: ...
    @property
    def edit_model(self) -> WorkerClient | None: ...
    @property
    def configuration(self) -> Configuration: ...
    def settings_of(self, uri: str) -> Settings: ...
    async def may_send(self, snapshot: Snapshot) -> bool: ...
    async def context_for(self, snapshot: Snapshot, offset: int, status: Status | None) -> tuple[Snippet, ...]: ...

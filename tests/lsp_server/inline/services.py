"""A service for the inline completions of one document, without a session."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from inference.messages import Snippet, Status
from lsp_server.documents.document import Document, Snapshot
from lsp_server.fill.feature import Broadcast
from lsp_server.inline import InlineService
from lsp_server.lsp.capabilities import ClientFeatures
from lsp_server.settings.schema import PerTrigger, Settings

ContextFor = Callable[[Snapshot, int, Status | None, int], Awaitable[tuple[Snippet, ...] | None]]


PATIENT = Settings(deadline_ms=PerTrigger(60_000, 60_000))


async def no_context(*_: object) -> tuple[()]:
    return ()


@dataclass
class LoneHost:
    """What the service needs of a session with one document."""

    document: Document
    worker: Any
    context_for: ContextFor = no_context
    broadcast: Broadcast = field(default_factory=Broadcast)
    settings: Settings = PATIENT
    features = ClientFeatures()

    @property
    def documents(self) -> dict[str, Document]:
        return {self.document.uri: self.document}

    async def parsed(self, document: Document) -> Snapshot:
        return document.snapshot()

    def settings_of(self, _uri: str) -> Settings:
        return self.settings

    def why_off(self, _uri: str) -> None:
        """It never is."""

    def tell_why(self, _failure: Exception) -> None:
        """Nobody listens."""


def inline_service(document: Document, connection: Any, context_for: ContextFor = no_context) -> InlineService:
    return InlineService(LoneHost(document, connection, context_for))  # type: ignore[arg-type]

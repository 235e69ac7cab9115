"""A service for the inline completions of one document, without a session."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from inference.messages import Snippet, Status
from lsp_server.documents.document import Document, Snapshot
from lsp_server.fill.feature import Broadcast
from lsp_server.inline import InlineService

ContextFor = Callable[[Snapshot, int, Status | None, int], Awaitable[tuple[Snippet, ...] | None]]


async def no_context(*_: object) -> tuple[()]:
    return ()


@dataclass
class LoneHost:
    """What the service needs of a session with one document."""

    document: Document
    worker: Any
    context_for: ContextFor = no_context
    broadcast: Broadcast = field(default_factory=Broadcast)

    @property
    def documents(self) -> dict[str, Document]:
        return {self.document.uri: self.document}

    async def parsed(self, document: Document) -> Snapshot:
        return document.snapshot()

    def tell_why(self, _failure: Exception) -> None:
        """Nobody listens."""


def inline_service(document: Document, connection: Any, context_for: ContextFor = no_context) -> InlineService:
    return InlineService(LoneHost(document, connection, context_for))  # type: ignore[arg-type]

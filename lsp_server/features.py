"""The base class of a session's features, and the events that the session sends them. Knows no LSP types."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from lsp_server.documents.change import TextChange

Trigger = Literal["typing", "asked", "action", "next edit"]
"""Whether an answer appeared by itself, was requested at the cursor, by a command or code action, or is a next edit."""


@dataclass(frozen=True)
class ShownEvent:
    """The user sees an answer, with the same `id` each time. `waited_ms`: since the request; None if it was cached."""

    id: str
    trigger: Trigger
    waited_ms: float | None = None


@dataclass(frozen=True)
class AcceptedEvent:
    """The user accepted the answer `id`, the whole of it or its start."""

    id: str
    is_whole: bool = True


class Feature:
    """Something that a session does with its documents. Passes each event on to its `parts`, unless it overrides the
    method; most have none.
    """

    is_computing = False
    """Whether a user waits for this feature's computation, or soon may."""
    parts: Sequence["Feature"] = ()

    def opened(self, uri: str) -> None:
        for part in self.parts:
            part.opened(uri)

    def changed(self, uri: str, changes: Sequence[TextChange]) -> None:
        """A document has changed; each change applies to the text after the previous one."""
        for part in self.parts:
            part.changed(uri, changes)

    def closed(self, uri: str) -> None:
        """A document was closed, or our copy of it can no longer be trusted. It may never have been opened."""
        for part in self.parts:
            part.closed(uri)

    def shown(self, uri: str, event: ShownEvent) -> None:
        for part in self.parts:
            part.shown(uri, event)

    def accepted(self, uri: str, event: AcceptedEvent) -> None:
        for part in self.parts:
            part.accepted(uri, event)

    def rejected(self, uri: str, answer_id: str) -> None:
        for part in self.parts:
            part.rejected(uri, answer_id)

    async def ended(self) -> None:
        for part in self.parts:
            await part.ended()


_F = TypeVar("_F", bound=Feature)


class FeatureRegistry(Feature):
    """All features of a session: each hears of every event, in the order in which they were added."""

    def __init__(self) -> None:
        self.parts: list[Feature] = []

    def of_class(self, kind: type[_F]) -> list[_F]:
        """The features of a class and its subclasses, in order."""
        return [part for part in self.parts if isinstance(part, kind)]

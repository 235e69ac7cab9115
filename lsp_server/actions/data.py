"""What a code action remembers until it is chosen."""

from typing import Any

import msgspec

from lsp_server.actions.action import Action
from lsp_server.actions.available import AvailableAction
from lsp_server.actions.failures import STALE, NotDone
from lsp_server.actions.kinds import ActionKind, holes_of
from lsp_server.documents.document import Snapshot
from lsp_server.fill.pipeline import FillOptions


class ActionData(msgspec.Struct, frozen=True):
    """An offer made for [start, end] of one version of a document. All places are `str` indices."""

    uri: str
    version: int
    task: ActionKind
    start: int
    end: int
    holes: list[tuple[int, int]]
    strength: float = 1.0
    instruction: str = ""

    @classmethod
    def of(cls, offer: AvailableAction, snapshot: Snapshot) -> "ActionData":
        """The order that accepts `offer`."""
        holes = [(span.start, span.end) for span in offer.holes]
        place = (offer.task, offer.start, offer.end, holes)
        return cls(snapshot.uri, snapshot.version, *place, offer.strength, offer.instruction)

    @classmethod
    def read(cls, data: Any) -> "ActionData":
        """What `as_data` gave. Raises msgspec.ValidationError."""
        return msgspec.convert(data, cls)

    def as_data(self) -> dict[str, Any]:
        """As the `data` of a code action."""
        return {**msgspec.structs.asdict(self), "task": self.task.value}

    def job(self, snapshot: Snapshot, marker: str) -> Action:
        """What is to be done to `snapshot`. Raises NotDone when it is not the text that the offer was made for."""
        if snapshot.version != self.version or not 0 <= self.start <= self.end <= len(snapshot.text):
            raise NotDone(STALE)
        holes = holes_of(self.task, snapshot, marker, self.start, self.end)
        if [(span.start, span.end) for span in holes] != self.holes:
            raise NotDone(STALE)
        return Action(self.task, snapshot, holes, FillOptions(self.strength, self.instruction), marker)

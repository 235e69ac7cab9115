"""The data of a code action between the offer and the choice."""

from typing import Any

import msgspec

from lsp_server.actions.action import Action
from lsp_server.actions.available import AvailableAction
from lsp_server.actions.kinds import STALE, ActionKind, NotDone, holes_of
from lsp_server.documents.document import Snapshot


class ActionData(msgspec.Struct, frozen=True):
    """An action offered for [start, end] of one version of a document. All places are `str` indices."""

    uri: str
    version: int
    kind: ActionKind
    start: int
    end: int
    holes: list[tuple[int, int]]
    strength: float | None = None
    instruction: str = ""

    @classmethod
    def of(cls, offered: AvailableAction, snapshot: Snapshot) -> "ActionData":
        """The data of an action that is offered for `snapshot`."""
        holes = [(span.start, span.end) for span in offered.holes]
        place = (offered.kind, offered.start, offered.end, holes)
        return cls(snapshot.uri, snapshot.version, *place, offered.strength, offered.instruction)

    def to_json(self) -> dict[str, Any]:
        """As the raw JSON of a code action's `data`."""
        return {**msgspec.structs.asdict(self), "kind": self.kind.value}

    def action(self, snapshot: Snapshot, marker: str) -> Action:
        """The action on `snapshot`. Raises NotDone if the action was offered for a different text."""
        if snapshot.version != self.version or not 0 <= self.start <= self.end <= len(snapshot.text):
            raise NotDone(STALE)
        holes = holes_of(self.kind, snapshot, marker, self.start, self.end)
        if [(span.start, span.end) for span in holes] != self.holes:
            raise NotDone(STALE)
        return Action(self.kind, snapshot, holes, self.strength, self.instruction, marker)

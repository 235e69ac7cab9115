"""The actions for a selection and their titles, the narrowest first. Asks no model and reparses nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from lsp_server import carve
from lsp_server.actions.action import Action
from lsp_server.actions.kinds import STALE, ActionKind, NotDone, holes_of, in_file, in_function, strength_of, touching
from lsp_server.carve import Span
from lsp_server.documents.document import Snapshot
from lsp_server.syntax.source import Source

STRENGTHS = {"lightly": 0.3, "halfway": 0.6, "freely": 0.9}
"""How much of a selection to noise.

Of 40 Python statements the embedded checkpoint keeps 0.88, 0.68 and 0.40 (mean similarity, 1 is unchanged), and 36, 28
and 25 of the results parse. Below 0.2 many come back unchanged.
"""
LONGEST_REWORK_CHARACTERS = 4000
"""No canvas holds more."""
LONGEST_INSTRUCTION_CHARACTERS = 500
MOST_REPAIRS = 3


@dataclass(frozen=True)
class AvailableAction:
    """An action for the selection [start, end]. `variant` tells apart those that differ only in `strength` (None: the
    kind's default), and `diagnostic` is the index of the diagnostic that it answers.
    """

    title: str
    kind: ActionKind
    start: int
    end: int
    holes: tuple[Span, ...]
    strength: float | None = None
    instruction: str = ""
    variant: str = ""
    diagnostic: int | None = None


class DiagnosticText(NamedTuple):
    """A diagnostic of any tool about [start, end)."""

    start: int
    end: int
    message: str


def fills(source: Source, marker: str, start: int, end: int, *, automatic: bool = False) -> list[AvailableAction]:
    """The actions for [start, end], several of which may mean the same holes. `automatic`: for a mere cursor."""
    every = in_file(source, marker)
    touched = touching(every, start, end)
    inside = in_function(source, marker, start, end)
    actions = list(_of_holes(start, end, touched, inside, every))
    if not inside:  # otherwise the body itself needs filling, and markers in it may hide its extent
        actions += _of_body(source, start, end, automatic=automatic)
    if not touched:
        actions += _of_selection(source, start, end)
    return actions


def refinements(
    source: Source, marker: str, start: int, end: int, title: str, made: tuple[int, int] | None
) -> list[AvailableAction]:
    """The action that asks the partner, under this title: about the selection, or the recent fill in `made`."""
    if start != end and not touching(in_file(source, marker), start, end):
        made = start, end
    span = None if made is None else carve.selection(source, *made)
    if made is None or span is None or span.end - span.start > LONGEST_REWORK_CHARACTERS:
        return []
    return [AvailableAction(title, ActionKind.REFINE, *made, (span,))]


def distinct(actions: Sequence[AvailableAction]) -> list[AvailableAction]:
    """The actions without those that repeat an earlier one."""
    found: dict[object, AvailableAction] = {}
    for action in actions:
        found.setdefault((action.holes, strength_of(action.kind, action.strength), action.instruction), action)
    return list(found.values())


def repairs(source: Source, marker: str, diagnostics: Sequence[DiagnosticText]) -> list[AvailableAction]:
    """The actions that repair the statements under `diagnostics`, except statements with holes, which need filling."""
    actions: dict[Span, AvailableAction] = {}
    for number, (start, end, message) in enumerate(diagnostics):
        if len(actions) == MOST_REPAIRS:
            break
        span = carve.statement_around(source, start, end)
        if span is None or span in actions or carve.placeholders(source, marker, span.start, span.end):
            continue
        actions[span] = AvailableAction(
            "Repair this statement",
            ActionKind.REPAIR,
            start,
            end,
            (span,),
            instruction=f"Repair this: {message}"[:LONGEST_INSTRUCTION_CHARACTERS],
            diagnostic=number,
        )
    return list(actions.values())


def _of_holes(
    start: int, end: int, touched: Sequence[Span], inside: Sequence[Span], every: Sequence[Span]
) -> Iterator[AvailableAction]:
    here, where = ("this hole", "here") if start == end else ("the hole in the selection", "in the selection")
    if touched:
        yield _fill(ActionKind.FILL_HOLE, touched, start, end, here, where)
    if inside:
        yield _fill(ActionKind.FILL_FUNCTION, inside, start, end, "the hole of this function", "of this function")
    if every:
        yield _fill(ActionKind.FILL_FILE, every, start, end, "the hole of this file", "of this file")


def _fill(kind: ActionKind, holes: Sequence[Span], start: int, end: int, one: str, where: str) -> AvailableAction:
    title = f"Fill {one}" if len(holes) == 1 else f"Fill the {len(holes)} holes {where} together"
    return AvailableAction(title, kind, start, end, tuple(holes))


def _of_body(source: Source, start: int, end: int, *, automatic: bool) -> Iterator[AvailableAction]:
    body = carve.body_around(source, start) if carve.function_around(source, start, end) else None
    if body is None or (automatic and start > body.start):
        return
    exists = bool(source.text[body.start : body.end].strip())
    title = "Rewrite this body" if exists else "Write this body"
    yield AvailableAction(title, ActionKind.WRITE_BODY, start, end, (body,))


def _of_selection(source: Source, start: int, end: int) -> Iterator[AvailableAction]:
    span = carve.selection(source, start, end)
    if span is None or span.end - span.start > LONGEST_REWORK_CHARACTERS:
        return
    for variant, strength in STRENGTHS.items():
        title = f"Rework the selection: {variant}"
        yield AvailableAction(title, ActionKind.REWORK, start, end, (span,), strength=strength, variant=variant)


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

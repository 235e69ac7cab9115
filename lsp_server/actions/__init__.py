"""The actions that a user can request for a selection: their kinds, holes and titles, and how one is carried out."""

import asyncio
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from weakref import WeakKeyDictionary

from inference.messages import REFINED_STRENGTH, FilledHoles, Snippet
from lsp_server.documents.document import Snapshot
from lsp_server.fill import postprocess
from lsp_server.fill.pipeline import FillBudget, FillOptions, fill
from lsp_server.fill.postprocess import current_hole_texts
from lsp_server.holes import (
    DEFAULT_MARKER,
    HoleSpan,
    body_hole_around,
    find_placeholders,
    function_span_around,
    hole_at_cursor,
    hole_in_selection,
    statement_around,
    statement_at,
)
from lsp_server.syntax.parsing import Source
from lsp_server.worker import OnDraft, WorkerClient

STALE_MESSAGE = "the file has changed since the request; try again"
CANNOT_APPLY_MESSAGE = "this editor does not support workspace/applyEdit"
REWORK_STRENGTHS = {"lightly": 0.3, "halfway": 0.6, "freely": 0.9}
"""The share of a selection's tokens to noise.

Of 40 Python statements the embedded checkpoint keeps 0.88, 0.68 and 0.40 (mean similarity, 1 is unchanged), and 36, 28
and 25 of the results parse. Below 0.2 many come back unchanged.
"""
MAX_REWORK_CHARACTERS = 4000
"""No canvas is larger."""
MAX_INSTRUCTION_CHARACTERS = 500
MAX_REPAIRS = 3
_REPAIR_CANDIDATES = 6
"""A repair requests more candidates, since many do not parse; those come last."""
_REPAIR_STRENGTHS = (0.3, 0.6, 0.9)
"""Tried in turn until the result parses. With these, 28 of 29 Python statements do; with one of them, two thirds."""
_placeholders: WeakKeyDictionary[Source, dict[str, tuple[HoleSpan, ...]]] = WeakKeyDictionary()
"""The placeholders of texts that are still in use, by marker."""


class ActionNotDoneError(Exception):
    """The action changed nothing. str() tells the user why, and what to do next if that helps."""


class ActionCancelledError(ActionNotDoneError):
    def __init__(self) -> None:
        super().__init__("cancelled")


class ActionKind(StrEnum):
    """The kind of action. The value is the last part of the command's name and of the code action's kind."""

    FILL_HOLE = "fillHole"
    FILL_FUNCTION = "fillFunction"
    FILL_FILE = "fillFile"
    WRITE_BODY = "writeBody"
    REWORK = "rework"
    REPAIR = "repair"
    REFINE = "refine"


DEFAULT_STRENGTH = {ActionKind.REWORK: 0.6, ActionKind.REPAIR: 0.6, ActionKind.REFINE: REFINED_STRENGTH}
"""The default share of noise; the other kinds replace all of the text."""
_ACTIVITIES = {
    ActionKind.WRITE_BODY: "writing the body",
    ActionKind.REWORK: "reworking the selection",
    ActionKind.REPAIR: "repairing the statement",
    ActionKind.REFINE: "asking the partner",
}


_NO_HOLES = {
    ActionKind.FILL_HOLE: "there is no hole here",
    ActionKind.FILL_FUNCTION: "there is no hole in the function here",
    ActionKind.FILL_FILE: "the file has no hole",
    ActionKind.WRITE_BODY: "there is no function here",
    ActionKind.REWORK: "select the code to rework",
    ActionKind.REFINE: "there is nothing to refine here: select some code",
    ActionKind.REPAIR: "there is no statement here",
}


@dataclass(frozen=True)
class Action:
    """An action on `holes`, for the selection [start, end]. `requested_strength` is the share to noise, 0 to 1; None is
    the kind's default. `variant` distinguishes actions that differ only in strength. `diagnostic` is the index of the
    diagnostic to repair.
    """

    kind: ActionKind
    start: int
    end: int
    holes: tuple[HoleSpan, ...]
    requested_strength: float | None = None
    instruction: str = ""
    title: str = ""
    variant: str = ""
    diagnostic: int | None = None

    @property
    def strength(self) -> float:
        """How much of the text in the holes to noise, 0 to 1."""
        if self.kind not in DEFAULT_STRENGTH:
            return 1.0
        return DEFAULT_STRENGTH[self.kind] if self.requested_strength is None else self.requested_strength

    @property
    def activity(self) -> str:
        filling = "filling the hole" if len(self.holes) == 1 else f"filling {len(self.holes)} holes"
        return _ACTIVITIES.get(self.kind, filling)

    async def fill(
        self,
        worker: WorkerClient,
        snapshot: Snapshot,
        budget: FillBudget,
        *,
        marker: str = DEFAULT_MARKER,
        on_draft: OnDraft | None = None,
        context: tuple[Snippet, ...] = (),
    ) -> FilledHoles:
        """The new text of each hole; a repair adds noise until it parses. Raises ActionNotDoneError, WorkerError."""
        if self.kind is ActionKind.REPAIR:
            budget = dataclasses.replace(budget, candidates=max(budget.candidates, _REPAIR_CANDIDATES))
        if self.kind is ActionKind.REFINE:
            budget = dataclasses.replace(budget, candidates=1)
        repairs = self.kind is ActionKind.REPAIR
        current = current_hole_texts(snapshot, self.holes)
        tries_all = repairs and self.requested_strength is None and await self._breaks_parse(snapshot, current)
        best: FilledHoles | None = None
        for strength in _REPAIR_STRENGTHS if tries_all else (self.strength,):
            replaces = strength < 1 and worker.options.partner is not None
            result = await fill(
                worker,
                snapshot,
                self.holes,
                budget,
                options=FillOptions(strength, self.instruction, only_whole=replaces),
                on_draft=on_draft,
                context=context,
                marker=marker,
            )
            candidate = next(iter(result.candidates), None)
            best = best or candidate
            if candidate is not None and not (repairs and await self._breaks_parse(snapshot, candidate.texts)):
                return candidate
            if result.is_late or budget.deadline.is_past:
                break
        if best is None:
            raise ActionNotDoneError(result.empty_reason(budget))
        return best

    async def _breaks_parse(self, snapshot: Snapshot, texts: tuple[str, ...]) -> bool:
        return await asyncio.to_thread(postprocess.breaks_parse, snapshot, self.holes, texts)


def fill_actions(
    source: Source, marker: str, start: int, end: int, *, automatic: bool = False, refine_title: str = ""
) -> list[Action]:
    """The actions for [start, end]; several may have the same holes. `automatic`: the user did not ask for actions.
    `refine_title`: that of the action that has the partner improve the selection; empty if there is no partner.
    """
    all_holes = file_placeholders(source, marker)
    touched = spans_touching(all_holes, start, end)
    inside = function_placeholders(source, marker, start, end)
    one_hole, scope = ("this hole", "here") if start == end else ("the hole in the selection", "in the selection")
    actions = []
    if touched:
        actions.append(_fill(ActionKind.FILL_HOLE, touched, (start, end), one_hole, scope))
    if inside:
        function_scope = "of this function"
        actions.append(
            _fill(ActionKind.FILL_FUNCTION, inside, (start, end), f"the hole {function_scope}", function_scope)
        )
    if all_holes:
        actions.append(_fill(ActionKind.FILL_FILE, all_holes, (start, end), "the hole of this file", "of this file"))
    if not inside:  # otherwise the body itself needs filling, and markers in it may hide its extent
        actions += _body_action(source, start, end, automatic=automatic)
    span = None if touched else hole_in_selection(source, start, end)
    if span is not None and span.end - span.start <= MAX_REWORK_CHARACTERS:
        for variant, strength in REWORK_STRENGTHS.items():
            title = f"Rework the selection: {variant}"
            actions.append(Action(ActionKind.REWORK, start, end, (span,), strength, title=title, variant=variant))
        if refine_title:
            actions.append(Action(ActionKind.REFINE, start, end, (span,), title=refine_title))
    return actions


def repair_actions(source: Source, marker: str, diagnostics: Sequence[tuple[int, int, str]]) -> list[Action]:
    """The actions that repair the statements under `diagnostics` (start, end, message), except those with holes."""
    actions: dict[HoleSpan, Action] = {}
    for index, (start, end, message) in enumerate(diagnostics):
        if len(actions) == MAX_REPAIRS:
            break
        span = statement_around(source, start, end)
        if span is None or span in actions or find_placeholders(source, marker, span.start, span.end):
            continue
        instruction = f"Repair this: {message}"[:MAX_INSTRUCTION_CHARACTERS]
        actions[span] = Action(
            ActionKind.REPAIR,
            start,
            end,
            (span,),
            instruction=instruction,
            title="Repair this statement",
            diagnostic=index,
        )
    return list(actions.values())


def distinct_actions(actions: Sequence[Action]) -> list[Action]:
    unique: dict[object, Action] = {}
    for action in actions:
        unique.setdefault((action.holes, action.strength, action.instruction), action)
    return list(unique.values())


def holes_for(kind: ActionKind, source: Source, marker: str, start: int, end: int) -> tuple[HoleSpan, ...]:
    """The holes of `kind` for the selection [start, end], in order. Raises ActionNotDoneError if there is none."""
    spans: Sequence[HoleSpan | None]
    match kind:
        case ActionKind.FILL_HOLE:
            spans = spans_touching(file_placeholders(source, marker), start, end)
            if not spans and start == end:  # the hole that the syntax around the cursor suggests
                spans = [hole_at_cursor(source, start, marker)]
        case ActionKind.FILL_FUNCTION:
            spans = function_placeholders(source, marker, start, end)
        case ActionKind.FILL_FILE:
            spans = file_placeholders(source, marker)
        case ActionKind.WRITE_BODY:
            spans = [body_hole_around(source, start)]
        case ActionKind.REFINE if start == end:
            spans = [statement_at(source, start)]
        case ActionKind.REWORK | ActionKind.REFINE:
            spans = [hole_in_selection(source, start, end)]
        case ActionKind.REPAIR:
            spans = [statement_around(source, start, end)]
    holes = tuple(span for span in spans if span is not None)
    if not holes:
        raise ActionNotDoneError(_NO_HOLES[kind])
    return holes


def file_placeholders(source: Source, marker: str) -> Sequence[HoleSpan]:
    """All placeholders of the text, searched once per text: editors ask each time the cursor moves."""
    cached = _placeholders.setdefault(source, {})
    if marker not in cached:
        cached[marker] = tuple(find_placeholders(source, marker))
    return cached[marker]


def function_placeholders(source: Source, marker: str, start: int, end: int) -> list[HoleSpan]:
    function = function_span_around(source, start, end)
    if function is None:
        return []
    return [span for span in file_placeholders(source, marker) if function[0] <= span.start and span.end <= function[1]]


def spans_touching(spans: Sequence[HoleSpan], start: int, end: int) -> list[HoleSpan]:
    return [span for span in spans if span.start <= end and span.end >= start]


def _fill(kind: ActionKind, holes: Sequence[HoleSpan], selected: tuple[int, int], one_hole: str, scope: str) -> Action:
    title = f"Fill {one_hole}" if len(holes) == 1 else f"Fill the {len(holes)} holes {scope} together"
    return Action(kind, *selected, tuple(holes), title=title)


def _body_action(source: Source, start: int, end: int, *, automatic: bool) -> Iterator[Action]:
    body = body_hole_around(source, start) if function_span_around(source, start, end) else None
    if body is None or (automatic and start > body.start):
        return
    exists = bool(source.text[body.start : body.end].strip())
    title = "Rewrite this body" if exists else "Write this body"
    yield Action(ActionKind.WRITE_BODY, start, end, (body,), title=title)

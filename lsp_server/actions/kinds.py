"""The seven actions a user can request, the holes of each, and how one can end without an edit."""

from collections.abc import Sequence
from enum import StrEnum
from weakref import WeakKeyDictionary

from inference.messages import REFINED_STRENGTH
from lsp_server import carve
from lsp_server.carve import Span
from lsp_server.syntax.source import Source

STALE = "the file has changed since the request; ask again"
NOTHING_TO_REFINE = "there is nothing to refine here: select some code, or put the cursor in a recent fill"
CANNOT_APPLY = "this editor does not support workspace/applyEdit"


class NotDone(Exception):
    """Nothing was changed. str() says why, and suggests a next step if there is one."""


class Cancelled(NotDone):
    """The user has stopped it."""

    def __init__(self) -> None:
        super().__init__("cancelled")


class ActionKind(StrEnum):
    """The action. The value is the last part of the command's name and of the code action's kind."""

    FILL_HOLE = "fillHole"
    FILL_FUNCTION = "fillFunction"
    FILL_FILE = "fillFile"
    WRITE_BODY = "writeBody"
    REWORK = "rework"
    REPAIR = "repair"
    REFINE = "refine"


DEFAULT_STRENGTH = {ActionKind.REWORK: 0.6, ActionKind.REPAIR: 0.6, ActionKind.REFINE: REFINED_STRENGTH}
"""The default noise of the text; every other kind noises all of it."""

_placeholders: WeakKeyDictionary[Source, dict[str, tuple[Span, ...]]] = WeakKeyDictionary()
"""Caches the placeholders of texts that are still in use, by marker."""


def strength_of(kind: ActionKind, requested: float | None) -> float:
    """How much of the text in the holes to noise, 0 to 1. `requested` None: the default of `kind`."""
    if kind not in DEFAULT_STRENGTH:
        return 1.0
    return DEFAULT_STRENGTH[kind] if requested is None else requested


def holes_of(kind: ActionKind, source: Source, marker: str, start: int, end: int) -> tuple[Span, ...]:
    """The holes of `kind` for the selection [start, end], in order. Raises NotDone if there is none."""
    match kind:
        case ActionKind.FILL_HOLE:
            marked = touching(in_file(source, marker), start, end)
            return _some(marked or _at_cursor(source, marker, start, end), "there is no hole here")
        case ActionKind.FILL_FUNCTION:
            return _some(in_function(source, marker, start, end), "there is no hole in the function here")
        case ActionKind.FILL_FILE:
            return _some(in_file(source, marker), "the file has no hole")
        case ActionKind.WRITE_BODY:
            return _one(carve.body_around(source, start), "there is no function here")
        case ActionKind.REWORK:
            return _one(carve.selection(source, start, end), "select the code to rework")
        case ActionKind.REFINE:
            return _one(carve.selection(source, start, end), NOTHING_TO_REFINE)
        case ActionKind.REPAIR:
            return _one(carve.statement_around(source, start, end), "there is no statement here")


def in_file(source: Source, marker: str) -> Sequence[Span]:
    """All placeholders of the text, searched once per text: editors ask each time the cursor moves."""
    known = _placeholders.setdefault(source, {})
    if marker not in known:
        known[marker] = tuple(carve.placeholders(source, marker))
    return known[marker]


def in_function(source: Source, marker: str, start: int, end: int) -> list[Span]:
    """The placeholders of the function around the selection."""
    function = carve.function_around(source, start, end)
    if function is None:
        return []
    return [span for span in in_file(source, marker) if function[0] <= span.start and span.end <= function[1]]


def touching(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    """The spans that the selection [start, end] touches."""
    return [span for span in spans if span.start <= end and span.end >= start]


def _at_cursor(source: Source, marker: str, start: int, end: int) -> list[Span]:
    """Without a marker, the hole that the syntax around the cursor suggests."""
    span = carve.at_cursor(source, start, marker) if start == end else None
    return [] if span is None else [span]


def _some(spans: Sequence[Span], otherwise: str) -> tuple[Span, ...]:
    if not spans:
        raise NotDone(otherwise)
    return tuple(spans)


def _one(span: Span | None, otherwise: str) -> tuple[Span, ...]:
    return _some([] if span is None else [span], otherwise)

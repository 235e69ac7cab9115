"""The six things a user can ask for, and the holes that each of them means. Text in, spans out."""

from enum import StrEnum

from lsp_server import carve
from lsp_server.actions.outcome import NotDone
from lsp_server.carve import Source, Span


class Task(StrEnum):
    """What to do. The value is the last part of the command's name and of the code action's kind."""

    FILL_HOLE = "fillHole"
    FILL_FUNCTION = "fillFunction"
    FILL_FILE = "fillFile"
    WRITE_BODY = "writeBody"
    REWORK = "rework"
    REPAIR = "repair"


DEFAULT_STRENGTH = {Task.REWORK: 0.6, Task.REPAIR: 0.6}
"""What is reworked where nobody says how much; every other task fills anew."""


def strength_of(task: Task, wanted: float | None) -> float:
    """How much of what stands in the holes of `task` is noised: 1 is all of it."""
    if task not in DEFAULT_STRENGTH:
        return 1.0
    return DEFAULT_STRENGTH[task] if wanted is None else wanted


def holes_of(task: Task, source: Source, marker: str, start: int, end: int) -> tuple[Span, ...]:
    """The holes of `task` where [start, end] is selected, in order. Raises NotDone where there is none."""
    match task:
        case Task.FILL_HOLE:
            return _found(
                touching(source, marker, start, end) or _at_cursor(source, marker, start, end), "there is no hole here"
            )
        case Task.FILL_FILE:
            return _found(carve.markers(source, marker), "the file has no hole")
        case _:
            raise NotDone(f"{task.value} is not known here")


def touching(source: Source, marker: str, start: int, end: int) -> list[Span]:
    """The marked holes that the selection touches."""
    return [span for span in carve.markers(source, marker) if span.start <= end and span.end >= start]


def _at_cursor(source: Source, marker: str, start: int, end: int) -> list[Span]:
    """Where nothing is marked, the hole that the syntax around the cursor asks for."""
    span = carve.at_cursor(source, start, marker) if start == end else None
    return [] if span is None else [span]


def _found(spans: list[Span], otherwise: str) -> tuple[Span, ...]:
    if not spans:
        raise NotDone(otherwise)
    return tuple(spans)

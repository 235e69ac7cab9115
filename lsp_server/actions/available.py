"""What can be done at a selection, and what it is called. No model is asked, and nothing is parsed anew.

Narrow first: this hole, this function, this file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lsp_server import carve
from lsp_server.actions.kinds import DEFAULT_STRENGTH, ActionKind, among, in_file, in_function
from lsp_server.carve import Span
from lsp_server.syntax.source import Source

STRENGTHS = {"lightly": 0.3, "halfway": 0.6, "freely": 0.9}
"""How much of a selection is noised.

Of 40 Python statements the embedded checkpoint keeps 0.88, 0.68 and 0.40 (mean similarity, 1 is unchanged), and 36, 28
and 25 of the results parse. Below 0.2 many come back as they were.
"""
LONGEST_REWORK_CHARACTERS = 4000
"""No canvas holds more."""
LONGEST_INSTRUCTION_CHARACTERS = 500
MOST_REPAIRS = 3


@dataclass(frozen=True)
class AvailableAction:
    """One thing to do. `way` tells apart what only differs in `strength`; `about` numbers the diagnostic it answers."""

    title: str
    task: ActionKind
    start: int
    end: int
    holes: tuple[Span, ...]
    strength: float = 1.0
    instruction: str = ""
    way: str = ""
    about: int | None = None


class DiagnosticText(NamedTuple):
    """What somebody's diagnostic says about [start, end)."""

    start: int
    end: int
    message: str


def fills(source: Source, marker: str, start: int, end: int, *, unasked: bool = False) -> list[AvailableAction]:
    """What fills or rewrites code where [start, end] is selected, also where several fill the same holes.

    `unasked`: the user has only moved the cursor; then writing a body anew is offered at its header alone.
    """
    every = in_file(source, marker)
    chosen = among(every, start, end)
    inside = in_function(source, marker, start, end)
    offers = list(_of_holes(start, end, chosen, inside, every))
    if not inside:  # else the body is what is to be filled, and markers in it may hide how far it reaches
        offers += _of_body(source, start, end, unasked=unasked)
    if not chosen:
        offers += _of_selection(source, start, end)
    return offers


def distinct(offers: Sequence[AvailableAction]) -> list[AvailableAction]:
    """The offers without those that would do what one before them does."""
    found: dict[object, AvailableAction] = {}
    for offer in offers:
        found.setdefault((offer.holes, offer.strength), offer)
    return list(found.values())


def repairs(source: Source, marker: str, complaints: Sequence[DiagnosticText]) -> list[AvailableAction]:
    """What repairs the statements that are complained about; those with holes of their own are to be filled instead."""
    offers: dict[Span, AvailableAction] = {}
    for number, (start, end, message) in enumerate(complaints):
        if len(offers) == MOST_REPAIRS:
            break
        span = carve.statement_around(source, start, end)
        if span is None or span in offers or carve.placeholders(source, marker, span.start, span.end):
            continue
        offers[span] = AvailableAction(
            "Repair this statement",
            ActionKind.REPAIR,
            start,
            end,
            (span,),
            strength=DEFAULT_STRENGTH[ActionKind.REPAIR],
            instruction=f"Repair this: {message}"[:LONGEST_INSTRUCTION_CHARACTERS],
            about=number,
        )
    return list(offers.values())


def _of_holes(
    start: int, end: int, chosen: Sequence[Span], inside: Sequence[Span], every: Sequence[Span]
) -> Iterator[AvailableAction]:
    here, where = ("this hole", "here") if start == end else ("the hole in the selection", "in the selection")
    if chosen:
        yield _fill(ActionKind.FILL_HOLE, chosen, start, end, here, where)
    if inside:
        yield _fill(ActionKind.FILL_FUNCTION, inside, start, end, "the hole of this function", "of this function")
    if every:
        yield _fill(ActionKind.FILL_FILE, every, start, end, "the hole of this file", "of this file")


def _fill(task: ActionKind, holes: Sequence[Span], start: int, end: int, one: str, where: str) -> AvailableAction:
    title = f"Fill {one}" if len(holes) == 1 else f"Fill the {len(holes)} holes {where} together"
    return AvailableAction(title, task, start, end, tuple(holes))


def _of_body(source: Source, start: int, end: int, *, unasked: bool) -> Iterator[AvailableAction]:
    body = carve.body_around(source, start) if carve.function_around(source, start, end) else None
    if body is None or (unasked and start > body.start):
        return
    is_there = bool(source.text[body.start : body.end].strip())
    title = "Write this body anew" if is_there else "Write this body"
    yield AvailableAction(title, ActionKind.WRITE_BODY, start, end, (body,))


def _of_selection(source: Source, start: int, end: int) -> Iterator[AvailableAction]:
    span = carve.selection(source, start, end)
    if span is None or span.end - span.start > LONGEST_REWORK_CHARACTERS:
        return
    for way, strength in STRENGTHS.items():
        yield AvailableAction(
            f"Rework the selection: {way}", ActionKind.REWORK, start, end, (span,), strength=strength, way=way
        )

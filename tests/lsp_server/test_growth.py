"""Work on any text grows linearly with its length, not quadratically.

Compares a text with one four times as long: linear work takes four times as long, quadratic work sixteen.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from inference.messages import FilledHoles
from lsp_server.actions import fill_actions
from lsp_server.documents.document import Document, Snapshot
from lsp_server.fill import postprocess
from lsp_server.fill.postprocess import postprocess_all
from lsp_server.holes import (
    DEFAULT_MARKER,
    HoleSpan,
    body_hole_around,
    find_placeholders,
    function_span_around,
    hole_at_cursor,
    hole_in_selection,
    statement_around,
)

MOST_GROWTH = 9.0
"""For four times the text."""
SMALL_S = 0.02
"""So little time says nothing about growth."""
CHARACTERS = 2400


@dataclass(frozen=True)
class Shape:
    language_id: str
    piece: str

    def snapshot(self, characters: int) -> Snapshot:
        return Document("file:///text", self.language_id, 0, self.piece * (characters // len(self.piece))).snapshot()


SHAPES = {
    "markers in one deep tree": Shape("rust", "x = ???\n"),
    "markers in one wide error": Shape("python", "x = ???\n"),
    "markers alone": Shape("python", "???\n"),
    "markers on one line": Shape("python", "??? "),
    "an expression of many operands": Shape("python", "a + "),
    "open brackets": Shape("python", "x = [{("),
    "closing brackets": Shape("typescript", ")}]"),
    "empty lines": Shape("python", "\n"),
    "a word": Shape("python", "a"),
    "functions to write": Shape("python", "def f(a):\n    pass\n"),
    "no ASCII": Shape("python", "é中😀 = '👩'\n"),
    "plain text": Shape("plaintext", "f(a) {\n???\n"),
}


def holes_at(snapshot: Snapshot) -> list[HoleSpan]:
    middle = len(snapshot.text) // 2
    places = (0, middle // 2, middle, snapshot.text.find("\n", middle) + 1, len(snapshot.text))
    return [hole for at in places if (hole := hole_at_cursor(snapshot, at)) is not None]


def find_every_hole(snapshot: Snapshot) -> None:
    middle = len(snapshot.text) // 2
    holes_at(snapshot)
    function_span_around(snapshot, middle, middle)
    body_hole_around(snapshot, middle)
    hole_in_selection(snapshot, 0, middle)
    statement_around(snapshot, middle, middle)
    fill_actions(snapshot, DEFAULT_MARKER, middle, middle)


def fit_at_cursors(snapshot: Snapshot) -> None:
    for hole in holes_at(snapshot)[:2]:
        postprocess.FillPostprocessor(snapshot).fit(hole, f"{hole.starts_with}f(a, b))")


def fit_all(snapshot: Snapshot) -> None:
    holes = find_placeholders(snapshot)
    postprocess_all(snapshot, holes, [FilledHoles("1", tuple(f"{hole.starts_with}f(a)" for hole in holes))])


def seconds(work: Callable[[Snapshot], None], snapshot: Snapshot) -> float:
    """Of this thread alone, so that other work on the machine does not count."""
    began = time.thread_time()
    work(snapshot)
    return time.thread_time() - began


WITH_HOLES = ("markers in one deep tree", "markers in one wide error", "functions to write")
CASES = [(work, shape) for work in (find_every_hole, fit_at_cursors) for shape in SHAPES]
CASES += [(fit_all, shape) for shape in WITH_HOLES]


@pytest.mark.parametrize(("work", "shape"), CASES)
def test_work_grows_with_the_text(work: Callable[[Snapshot], None], shape: str) -> None:
    short = max(seconds(work, SHAPES[shape].snapshot(CHARACTERS)), SMALL_S)
    if seconds(work, SHAPES[shape].snapshot(4 * CHARACTERS)) >= MOST_GROWTH * short:  # a moment of other work, perhaps
        assert seconds(work, SHAPES[shape].snapshot(4 * CHARACTERS)) < MOST_GROWTH * short

"""What counts as shown, accepted, rejected and kept in one document."""

import asyncio

import pytest

from inference.messages import HoleKind
from lsp_server.carve import Span
from lsp_server.documents.document import Document, Edit
from lsp_server.documents.positions import Encoding
from lsp_server.usage.document_usage import DocumentUsage, Offer, Timing
from lsp_server.usage.events import Decided, Event, Look, Shown
from lsp_server.usage.taken import MOST

OFFER = Offer("inline-1", "line", "typing", 0.5, 7)


class Scene:
    """A document of one line, and what its `usage` has told."""

    def __init__(self, text: str, later_s: float = 300.0) -> None:
        self.document = Document("file:///a.py", "python", 1, text)
        self.told: list[Event] = []
        self.usage = DocumentUsage(self.document, self.told.append, later_s)

    def show(self, offer: Offer = OFFER) -> None:
        self.usage.shown(offer, Timing(0.0))

    def edit(self, start: int, end: int, text: str) -> None:
        edits = [Edit((0, start), (0, end), text)]
        self.usage.changed(self.document.apply(edits, self.document.version + 1, Encoding.UTF16))

    def accept(self, start: int, length: int, *, whole: bool = True, name: str = OFFER.name) -> None:
        self.usage.accepted(name, start, length, whole=whole)

    @property
    def shown(self) -> list[Shown]:
        return [event for event in self.told if isinstance(event, Shown)]

    @property
    def decided(self) -> list[tuple[str, int]]:
        return [(event.outcome, event.taken_characters) for event in self.told if isinstance(event, Decided)]

    @property
    def looks(self) -> list[tuple[str, str, str]]:
        return [(event.when, event.taken, event.stands) for event in self.told if isinstance(event, Look)]


async def test_an_offer_that_is_shown_again_is_counted_once() -> None:
    scene = Scene("x = ")
    scene.show()
    scene.show()
    assert len(scene.shown) == 1
    assert len(scene.told) == 3, "but each answer is timed"


async def test_what_was_typed_by_hand_is_not_taken() -> None:
    scene = Scene("x = ")
    scene.show()
    scene.edit(4, 4, "f")
    scene.edit(5, 5, "oo()")
    scene.accept(4, 5)
    assert scene.decided == [("whole", 4)]


async def test_parts_add_up_to_one_text() -> None:
    scene = Scene("x = ")
    scene.show()
    scene.edit(4, 4, "foo")
    scene.accept(4, 3, whole=False)
    scene.edit(7, 7, "(bar)")
    scene.accept(4, 8)
    scene.usage.saved()
    assert scene.decided == [("part", 3), ("whole", 8)]
    assert scene.looks == [("save", "foo(bar)", "foo(bar)")]


async def test_only_new_text_counts_as_taken() -> None:
    scene = Scene("x = fo)")
    scene.show()
    scene.edit(4, 7, "foo(bar)")
    scene.accept(4, 8)
    assert scene.decided == [("whole", 5)]


async def test_what_was_taken_stays_taken() -> None:
    scene = Scene("x = ")
    scene.show()
    scene.edit(4, 4, "foo")
    scene.accept(4, 3)
    scene.usage.rejected(OFFER.name)
    scene.accept(4, 3)
    assert scene.decided == [("whole", 3)]


async def test_a_rejected_offer_that_is_taken_after_all_is_taken() -> None:
    scene = Scene("x = ")
    scene.show()
    scene.usage.rejected(OFFER.name)
    scene.usage.rejected(OFFER.name)
    scene.edit(4, 4, "foo")
    scene.accept(4, 3)
    assert scene.decided == [("rejected", 0), ("whole", 3)]


async def test_what_was_never_shown_is_neither_taken_nor_rejected() -> None:
    scene = Scene("x = ")
    scene.accept(4, 3, name="other")
    scene.usage.rejected("other")
    assert scene.told == []


async def test_looks_at_the_next_save_and_once_later() -> None:
    scene = Scene("x = ", later_s=0.05)
    scene.show()
    scene.edit(4, 4, "taken")
    scene.accept(4, 5)
    scene.edit(0, 0, "yy")
    scene.edit(8, 8, "l")
    scene.usage.saved()
    scene.edit(6, 8, "")
    scene.usage.saved()
    await asyncio.sleep(0.2)
    scene.usage.saved()
    assert scene.looks == [("save", "taken", "talken"), ("later", "taken", "lken")]


async def test_what_is_closed_is_looked_at_no_more(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene("x = ", later_s=0.05)
    scene.show()
    scene.edit(4, 4, "taken")
    scene.accept(4, 5)
    scene.usage.close()
    await asyncio.sleep(0.2)
    scene.usage.saved()
    assert scene.looks == []
    assert caplog.records == [], "nor does a timer find nothing and fail"


async def test_so_many_taken_texts_are_followed_and_no_more() -> None:
    scene = Scene("")
    for number in range(MOST + 5):
        scene.show(Offer(f"inline-{number}", "line", "typing", 0.5, 3))
        scene.edit(0, 0, "foo ")
        scene.accept(0, 4, name=f"inline-{number}")
    scene.usage.saved()
    assert len(scene.looks) == MOST


async def test_a_fill_counts_once_the_document_is_as_it_would_make_it() -> None:
    scene = Scene("f(???, ???)")
    spans = [Span(2, 5, HoleKind.MARKER), Span(7, 10, HoleKind.MARKER)]
    scene.usage.filled(scene.document.snapshot(), spans, ("first", "???"), Timing(0.0))
    assert [shown.characters for shown in scene.shown] == [5], "a hole that keeps its marker is not filled"
    scene.edit(2, 5, "first")
    assert scene.decided == [("whole", 5)]


@pytest.mark.parametrize("edits", [[(7, 10, "second"), (2, 5, "first")], [(0, 11, "f(first, second)")]])
async def test_a_fill_counts_however_an_editor_applies_it(edits: list[tuple[int, int, str]]) -> None:
    scene = Scene("f(???, ???)")
    spans = [Span(2, 5, HoleKind.MARKER), Span(7, 10, HoleKind.MARKER)]
    scene.usage.filled(scene.document.snapshot(), spans, ("first", "second"), Timing(0.0))
    for edit in edits:
        scene.edit(*edit)
    assert scene.decided == [("whole", 5), ("whole", 6)]


async def test_a_fill_is_forgotten_once_something_else_is_typed() -> None:
    scene = Scene("f(???)")
    scene.usage.filled(scene.document.snapshot(), [Span(2, 5, HoleKind.MARKER)], ("first",), Timing(0.0))
    scene.edit(0, 0, "x")
    scene.edit(0, 1, "")
    scene.edit(2, 5, "first")
    assert scene.decided == []


async def test_a_fill_that_the_editor_refuses_is_rejected() -> None:
    scene = Scene("f(???)")
    scene.usage.filled(scene.document.snapshot(), [Span(2, 5, HoleKind.MARKER)], ("first",), Timing(0.0))
    scene.usage.refused()
    scene.edit(2, 5, "first")
    assert scene.decided == [("rejected", 0)]


@pytest.mark.parametrize(("told", "counted"), [("python", "python"), ("c++", "c++"), ("/home/me/x y", "other")])
async def test_a_language_is_a_name_of_a_language(told: str, counted: str) -> None:
    scene = Scene("x = ")
    scene.document.language_id = told
    scene.show()
    assert scene.shown[0].language == counted

"""The places of a document's last fills, and the partner's texts for them."""

from lsp_server import carve
from lsp_server.carve import Span
from lsp_server.documents.change import Change
from lsp_server.documents.document import Document, Snapshot
from lsp_server.refine.made_fills import Better, Made, MadeFills

TEXT = "a = ???\nb = ???\n"
FILLED = "a = one\nb = second\n"


def snapshot() -> Snapshot:
    return Document("file:///a.py", "python", 1, TEXT).snapshot()


def spans() -> tuple[Span, ...]:
    return tuple(carve.markers(snapshot(), "???"))


def made() -> tuple[MadeFills, Made]:
    """Both holes were filled."""
    fills = MadeFills()
    fills.expect(snapshot(), spans(), ("one", "second"), 0.25)
    found = fills.changed([Change(12, "???", "second"), Change(4, "???", "one")], FILLED)
    assert found is not None
    return fills, found


def test_an_edit_that_is_never_applied_is_given_up() -> None:
    fills = MadeFills()
    fills.expect(snapshot(), spans(), ("one", "second"), 0.25)
    assert fills.changed([Change(0, "", "x")], "other") is None
    assert fills.changed([Change(0, "", "x")], FILLED) is None


def test_a_hole_that_was_left_as_it_is_is_no_fill() -> None:
    fills = MadeFills()
    fills.expect(snapshot(), spans(), ("one", "???"), 0.5)
    found = fills.changed([Change(4, "???", "one")], "a = one\nb = ???\n")
    assert found is not None and len(found.fills) == 1


def test_a_fill_is_followed_through_edits_and_lost_with_its_text() -> None:
    fills, _ = made()
    later = "# above\n" + FILLED
    fills.changed([Change(0, "", "# above\n")], later)
    found = fills.at(8 + 5)
    assert found is not None and found.place.of(later) == "one"
    assert fills.at(0) is None
    fills.changed([Change(12, "one", "")], "# above\na = \nb = second\n")
    assert fills.at(12) is None


def test_what_is_ready_is_for_the_draft_as_it_was() -> None:
    fills, found = made()
    fills.offer(found.fills[0], Better("one", "1"))
    assert fills.better(4, 7, FILLED) == "1"
    assert fills.better(12, 18, FILLED) is None
    changed = FILLED.replace("one", "oney")
    fills.changed([Change(7, "", "y")], changed)
    assert fills.better(4, 8, changed) is None

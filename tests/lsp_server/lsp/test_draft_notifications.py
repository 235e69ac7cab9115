"""Drafts: what would be put in, by token, never more often than an eye can follow, never for a text that is gone."""

import msgspec
import pytest

from inference.messages import Draft
from lsp_server import carve
from lsp_server.documents.change import Change
from lsp_server.documents.document import Document, Snapshot
from lsp_server.documents.positions import Encoding
from lsp_server.inline.anchor import Anchor
from lsp_server.lsp.draft_notifications import METHOD, DraftSender, HoleDraft, hole_drafts


def at_cursor(text: str) -> tuple[Snapshot, carve.Span]:
    cursor = text.index("‸")
    snapshot = Document("file:///a.py", "python", 7, text.replace("‸", "")).snapshot()
    span = carve.at_cursor(snapshot, cursor)
    assert span is not None
    return snapshot, span


def draft(*pieces: str, step: int = 1) -> Draft:
    return Draft("r", step, 8, (pieces,), (tuple(0.5 + i / 16 for i in range(len(pieces))),))


def test_a_draft_is_its_tokens_with_a_confidence_each() -> None:
    snapshot, span = at_cursor("def add(a, b):\n    return ‸\n")
    (sketch,) = hole_drafts(snapshot, [span], draft("a", " +", " b"))
    assert (sketch.text, sketch.pieces, sketch.confidences) == ("a + b", ("a", " +", " b"), (0.5, 0.5625, 0.625))


def test_what_would_not_be_put_in_is_not_shown() -> None:
    snapshot, span = at_cursor("print(‸)\n")
    (sketch,) = hole_drafts(snapshot, [span], draft("a", ")", "\n", "b = 1"))
    assert (sketch.text, sketch.pieces) == ("a", ("a",))


def test_line_ends_are_those_of_the_document() -> None:
    snapshot, span = at_cursor("def f():\r\n    ‸\r\n")
    (sketch,) = hole_drafts(snapshot, [span], draft("a = 1", "\n    ", "b = 2"))
    assert sketch.text == "a = 1\r\n    b = 2"
    assert sketch.pieces == ("a = 1", "\r\n    ", "b = 2")


def test_a_hole_with_nothing_fit_yet_is_left_out() -> None:
    snapshot, span = at_cursor("x = ‸\n")
    assert hole_drafts(snapshot, [span], draft("\ufffd")) == []


def test_of_a_hole_that_is_partly_typed_the_rest_is_shown() -> None:
    snapshot, span = at_cursor("def f():‸\n")
    (sketch,) = hole_drafts(snapshot, [span], draft("\n    re", "turn", " 1"))
    place = Anchor.of(snapshot.text, span.start, span.end, span.start)
    change = Change(span.start, "", "\n    r")
    moved = place.after(change)
    assert moved is not None
    text = change.applied(snapshot.text)
    shown = sketch.at(text, moved[0], text.index("r\n") + 1)
    assert shown is not None
    assert (shown.start, shown.end) == (9, 14), "what is typed of its last line is replaced"
    assert (shown.text, shown.pieces) == ("    return 1", ("    re", "turn", " 1"))
    assert shown.confidences == sketch.confidences
    assert sketch.at(text.replace("r\n", "x\n"), moved[0], text.index("r\n") + 1) is None


def test_the_pieces_are_those_of_what_is_shown_after_enter_between_two_braces() -> None:
    sketch = HoleDraft(3, 3, "\n    one()\n", ("\n    ", "one", "()\n"), (0.5, 0.6, 0.7))
    change = Change(3, "", "\n\n")
    moved = Anchor.of("f {}\n", 3, 3, 3).after(change)
    assert moved is not None
    shown = sketch.at(change.applied("f {}\n"), moved[0], 4)
    assert shown is not None
    assert (shown.text, shown.pieces) == ("    one()", ("    ", "one", "()"))


@pytest.mark.parametrize("current", [True, False])
def test_nothing_is_sent_for_a_text_that_is_gone(current: bool) -> None:
    snapshot, span = at_cursor("s = '😀'; x = ‸\n")
    sent: list[tuple[str, dict[str, object]]] = []
    tell = DraftSender(
        lambda method, params: sent.append((method, params)),
        snapshot,
        [span],
        kind="inline",
        encoding=Encoding.UTF16,
        token="t",
        is_current=lambda: current,
    )
    for step in range(3):
        tell(msgspec.structs.replace(draft("1", step=step)))
    if not current:
        assert sent == []
        return
    ((method, params),) = sent  # the later ones come too soon
    at = {"line": 0, "character": 14}
    assert (method, params["uri"], params["version"], params["kind"]) == (METHOD, "file:///a.py", 7, "inline")
    assert (params["token"], params["step"], params["maxSteps"]) == ("t", 0, 8)
    hole = {"range": {"start": at, "end": at}, "text": "1", "pieces": ["1"], "confidences": [0.5]}
    assert params["holes"] == [hole]

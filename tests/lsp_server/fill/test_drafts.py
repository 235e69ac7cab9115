"""Drafts show the text to insert, by token; the rest of a partly typed hole; and the progress of the fill."""

from inference.messages import Draft
from lsp_server.commands.output import coloured_draft
from lsp_server.documents.change import TextChange
from lsp_server.documents.document import Document, Snapshot
from lsp_server.fill.drafts import DraftReader, HoleDraft, describe_progress
from lsp_server.holes import DEFAULT_MARKER, HoleSpan, find_markers, hole_at_cursor
from lsp_server.inline import Cursor, InlineRequest
from lsp_server.inline.computation import FillComputation
from tests.lsp_server.fixtures import with_cursor
from tests.lsp_server.inline.typing_user import MANY


def at_cursor(text: str) -> tuple[Snapshot, HoleSpan]:
    text, cursor = with_cursor(text)
    snapshot = Document("file:///a.py", "python", 7, text).snapshot()
    return snapshot, hole_at_cursor(snapshot, cursor)


def draft(*pieces: str, step: int = 1) -> Draft:
    return Draft("r", step, 8, (pieces,), (tuple(0.5 + i / 16 for i in range(len(pieces))),))


def read(snapshot: Snapshot, span: HoleSpan, *pieces: str) -> list[HoleDraft]:
    return DraftReader(snapshot, [span]).read_holes(draft(*pieces))


def test_a_draft_is_its_tokens_with_a_confidence_each() -> None:
    snapshot, span = at_cursor("def add(a, b):\n    return ‸\n")
    (hole,) = read(snapshot, span, "a", " +", " b")
    assert (hole.text, hole.pieces, hole.confidences) == ("a + b", ("a", " +", " b"), (0.5, 0.5625, 0.625))
    (hole,) = read(*at_cursor("print(‸)\n"), "f(", "a)")
    assert (hole.pieces, hole.confidences) == (("f(", "a)", ")"), (0.5, 0.5625, 1.0))


def test_a_draft_ends_where_the_suggestion_will() -> None:
    snapshot, span = at_cursor("def add(a, b):\n    return ‸\n")
    pieces = Draft("r", 1, 8, (("first", " +", " second"),), ((0.9, 0.9, 0.2),))
    (hole,) = DraftReader(snapshot, [span], 0.5).read_holes(pieces)
    assert (hole.text, hole.pieces) == ("first", ("first",))
    assert DraftReader(snapshot, [span], 0.95).read_holes(pieces) == []


def test_line_ends_are_those_of_the_document() -> None:
    snapshot, span = at_cursor("def f():\r\n    ‸\r\n")
    (hole,) = read(snapshot, span, "a = 1", "\n    ", "b = 2")
    assert (hole.text, hole.pieces) == ("a = 1\r\n    b = 2", ("a = 1", "\r\n    ", "b = 2"))


def test_a_hole_with_nothing_fit_yet_is_left_out() -> None:
    snapshot, span = at_cursor("x = ‸\n")
    assert read(snapshot, span, "\ufffd") == []
    assert read(snapshot, span, "a", "\u200b") == []


def typed_into(snapshot: Snapshot, span: HoleSpan, change: TextChange) -> FillComputation:
    request = InlineRequest(Cursor(span.start), MANY, DEFAULT_MARKER)
    computation = FillComputation(snapshot, span, request)
    computation.anchor = computation.anchor.after_change(change)
    return computation


def test_of_a_hole_that_is_partly_typed_the_rest_is_shown() -> None:
    snapshot, span = at_cursor("def f():‸\n")
    pieces = ("\n    re", "turn", " 1")
    change = TextChange(span.start, "", "\n    r")
    text = change.apply_to(snapshot.text)
    computation = typed_into(snapshot, span, change)
    cursor = text.index("r\n") + 1
    (shown,) = computation.render_draft(draft(*pieces), cursor, text)
    assert (shown.start, shown.end) == (9, 14), "what is typed of its last line is replaced"
    assert (shown.text, shown.pieces) == ("    return 1", ("    re", "turn", " 1"))
    assert shown.confidences == read(snapshot, span, *pieces)[0].confidences
    assert computation.render_draft(draft(*pieces), cursor, text.replace("r\n", "x\n")) == []


def test_pieces_match_what_is_shown_between_braces() -> None:
    text = "function f() {}\n"
    snapshot = Document("file:///a.js", "javascript", 1, text).snapshot()
    span = hole_at_cursor(snapshot, text.index("}"))
    change = TextChange(text.index("}"), "", "\n\n")
    computation = typed_into(snapshot, span, change)
    (shown,) = computation.render_draft(draft("\n  ", "one", "();\n"), text.index("}") + 1, change.apply_to(text))
    assert (shown.text, shown.pieces) == ("  one();", ("  ", "one", "();"))


def draft_of(step: int, *holes: str) -> Draft:
    """A draft after `step` of 8 steps; a hole whose canvas has not begun is empty."""
    pieces = tuple((text,) if text else () for text in holes)
    return Draft("r", step, 8, pieces, tuple(tuple(1.0 for _ in hole) for hole in pieces))


def test_progress_names_the_last_hole_begun() -> None:
    assert describe_progress(draft_of(4, "a", "b", "", "")) == ("hole 2 of 4, step 4", 25)
    assert describe_progress(draft_of(2, "a", "b", "c", "d")) == ("step 2", 0)
    assert describe_progress(draft_of(2, "a")) == ("step 2", 0)


def test_neither_draft_nor_document_commands_the_terminal() -> None:
    text = "y = '\x1b]0;title\x07'; x = ???  # \u202e\n"
    snapshot = Document("file:///a.py", "python", 1, text).snapshot()
    draft = Draft("r", 1, 8, (("a", "\x1b[2J", "\u202e"),), ((0.5, 0.5, 0.5),))
    shown = coloured_draft(snapshot, find_markers(snapshot), draft).plain
    assert not set(shown) & {"\x1b", "\x07", "\u202e"}
    assert "x = a" in shown

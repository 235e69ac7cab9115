"""Markers are found wherever they are, and become several lines only where possible."""

import re
from pathlib import Path

import pytest
from hypothesis import given

from inference.messages import HoleKind
from lsp_server import holes
from lsp_server.syntax.parsing import Source
from tests.lsp_server.fixtures import Case, cases
from tests.lsp_server.texts import texts

FIXTURES = Path(__file__).parent / "fixtures"
MARKERS = [
    pytest.param(language_id, *case.values, id=f"{name}: {case.id}")
    for language_id, name in (("python", "python"), ("", "plain"))
    for case in cases(FIXTURES / f"{name}_markers.txt")
]


@pytest.mark.parametrize(("language_id", "case"), MARKERS)
def test_markers_are_found(language_id: str, case: Case) -> None:
    """The text of a case has the expected kind in place of each marker."""
    text = re.sub("⟦(body|block|marker)⟧", "???", case.text)
    spans = holes.find_markers(Source.parse(language_id, text))
    assert holes.splice(text, spans, [f"⟦{span.kind}⟧" for span in spans]) == case.text
    for span in spans:
        assert text[span.start : span.end] == "???"
        assert span.single_line == (span.kind == "marker")


def test_any_text_can_be_the_marker() -> None:
    source = Source.parse("python", "def f():\n    <fill «me»>\n\nx = <fill «me»> + 1\n")
    found = [(span.start, span.single_line) for span in holes.find_markers(source, "<fill «me»>")]
    assert found == [(13, False), (30, True)]


@given(text=texts)
def test_markers_of_any_text_are_all_found_and_never_overlap(text: str) -> None:
    for language_id in ("python", ""):
        spans = holes.find_markers(Source.parse(language_id, text))
        assert holes.splice(text, spans, ["!"] * len(spans)) == text.replace("???", "!")


STUB = "class A:\n    def f(self) -> int: ...\n\n    def g(self):\n        ...\n"


def test_a_stub_has_markers_but_no_missing_bodies() -> None:
    text = STUB + "x = ???\n"
    (span,) = holes.find_placeholders(Source.parse("python", text, "file:///a.pyi"))
    assert text[span.start : span.end] == "???"
    assert len(holes.find_placeholders(Source.parse("python", text, "file:///a.py"))) == 3


def test_only_what_lies_within_the_range_is_found() -> None:
    source = Source.parse("python", "def f():\n    ...\n\ndef g():\n    pass\n")
    first, second = holes.find_placeholders(source)
    assert holes.find_placeholders(source, start=first.start) == [first, second]
    assert holes.find_placeholders(source, start=first.start + 1) == [second]
    assert holes.find_placeholders(source, end=second.end - 1) == [first]
    function = holes.function_span_around(source, second.start, second.end)
    assert holes.find_placeholders(source, "???", *function) == [second]


def test_without_a_grammar_the_markers_are_the_placeholders() -> None:
    source = Source.parse("", "def f():\n    ...\n    ???\n")
    assert holes.find_placeholders(source) == holes.find_markers(source) != []


def test_missing_grammar_falls_back_to_indentation() -> None:
    source = Source("def f():\n    ", "python", None, "")
    assert holes.hole_at_cursor(source, len(source.text)) == holes.HoleSpan(13, 13, HoleKind.BODY)


def test_without_a_grammar_a_selection_is_still_a_hole() -> None:
    source = Source.parse("", "one two\nthree\n")
    assert holes.hole_in_selection(source, 3, 8) == holes.HoleSpan(4, 7, HoleKind.EXPRESSION, single_line=True)
    assert holes.hole_in_selection(source, 0, 14) == holes.HoleSpan(0, 13, HoleKind.BLOCK)
    assert holes.statement_around(source, 9, 10) == holes.HoleSpan(8, 13, HoleKind.LINE, single_line=True)

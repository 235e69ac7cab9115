"""Markers are found wherever they are, and become several lines only where possible."""

import re
from pathlib import Path

import pytest
from hypothesis import given

from lsp_server import carve
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
    spans = carve.markers(Source.parse(language_id, text))
    assert carve.splice(text, spans, [f"⟦{span.kind}⟧" for span in spans]) == case.text
    for span in spans:
        assert text[span.start : span.end] == "???"
        assert span.single_line == (span.kind == "marker")


def test_any_text_can_be_the_marker() -> None:
    source = Source.parse("python", "def f():\n    <fill «me»>\n\nx = <fill «me»> + 1\n")
    found = [(span.start, span.single_line) for span in carve.markers(source, "<fill «me»>")]
    assert found == [(13, False), (30, True)]


@given(text=texts)
def test_markers_of_any_text_are_all_found_and_never_overlap(text: str) -> None:
    for language_id in ("python", ""):
        spans = carve.markers(Source.parse(language_id, text))
        assert carve.splice(text, spans, ["!"] * len(spans)) == text.replace("???", "!")

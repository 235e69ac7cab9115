"""One fill made fit to be shown, in the place a cursor or a marker gives it."""

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from inference.messages import HoleKind
from lsp_server import carve
from lsp_server.fill import fitting
from lsp_server.syntax.source import ParsedText
from tests.lsp_server.fixtures import Case, cases, with_cursor
from tests.lsp_server.texts import short_texts, texts

FIXTURES = Path(__file__).parent / "fixtures"
NOTHING = "(nothing)"


def check(language_id: str, case: Case) -> None:
    """Fit the fill of a case (`+`) into the hole at its cursor, and compare with what is to be shown (`=`)."""
    text, offset = with_cursor(case.text)
    source = ParsedText.parse(language_id, text)
    span = carve.at_cursor(source, offset)
    assert span is not None
    fitted = fitting.fit(source, span, case.expected["+"])
    assert (NOTHING if fitted is None else fitted) == case.expected["="]


CASES = [
    pytest.param("" if path.stem == "plain" else path.stem, *case.values, id=f"{path.stem}: {case.id}")
    for path in sorted(FIXTURES.glob("*.txt"))
    for case in cases(path, "+", "=")
]


@pytest.mark.parametrize(("language_id", "case"), CASES)
def test_what_is_shown(language_id: str, case: Case) -> None:
    check(language_id, case)


@pytest.mark.parametrize("marker_fill", ["???", "", "  \n ", "\ufffd1"])
def test_a_fill_that_says_nothing_new_is_not_shown(marker_fill: str) -> None:
    source = ParsedText.parse("python", "x = ???\n")
    assert fitting.fit(source, carve.markers(source)[0], marker_fill) is None


def test_a_marker_in_the_middle_of_a_line_is_filled_without_what_follows() -> None:
    source = ParsedText.parse("python", "x = f(???, b)\n")
    assert fitting.fit(source, carve.markers(source)[0], "a, b)") == "a"


@settings(max_examples=200, deadline=None)
@given(
    text=texts,
    fill=short_texts,
    language_id=st.sampled_from(["python", "rust", "typescript", "ruby", ""]),
    data=st.data(),
)
def test_any_fill_keeps_to_its_hole(text: str, fill: str, language_id: str, data: st.DataObject) -> None:
    source = ParsedText.parse(language_id, text)
    span = carve.at_cursor(source, data.draw(st.integers(0, len(text))))
    assume(span is not None)
    assert span is not None
    fitted = fitting.fit(source, span, span.starts_with + fill)
    if fitted is None:
        return
    assert fitted.startswith(span.starts_with)
    assert not (span.single_line and {"\r", "\n"} & set(fitted))
    assert fitted != text[span.start : span.end]
    carve.splice(text, [span], [fitted])


def test_a_hole_of_a_selection_is_fitted_too() -> None:
    text = "def f():\n    a = 1\n    b = 2\n    return a\n"
    start, end = text.index("a = 1"), text.index("\n    return")
    span = carve.Span(start, end, HoleKind.BLOCK)
    assert fitting.fit(ParsedText.parse("python", text), span, "a = 3\n    return a\n") == "a = 3"

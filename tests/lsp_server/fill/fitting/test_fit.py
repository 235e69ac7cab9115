"""Fits one fill for display, at a cursor or a marker."""

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from inference.messages import Candidate, HoleKind
from lsp_server import carve
from lsp_server.documents.document import Document
from lsp_server.fill import fitting
from lsp_server.syntax.languages import table_of
from lsp_server.syntax.parsing import Source
from lsp_server.syntax.scanning import unclosed, unopened
from tests.lsp_server.fixtures import Case, cases, with_cursor
from tests.lsp_server.texts import short_texts, texts

FIXTURES = Path(__file__).parent / "fixtures"
NOTHING = "(nothing)"


CASES = [
    pytest.param("" if path.stem == "plain" else path.stem, *case.values, id=f"{path.stem}: {case.id}")
    for path in sorted(FIXTURES.glob("*.txt"))
    for case in cases(path, "+", "=")
]


def at_marker(text: str, fill: str) -> str | None:
    source = Source.parse("python", text)
    return fitting.Fitter(source).fit(carve.markers(source)[0], fill)


@pytest.mark.parametrize(("language_id", "case"), CASES)
def test_what_is_shown(language_id: str, case: Case) -> None:
    """The fill of a case (`+`) in the hole at its cursor becomes what is to be shown (`=`)."""
    text, offset = with_cursor(case.text)
    source = Source.parse(language_id, text)
    fitted = fitting.Fitter(source).fit(carve.at_cursor(source, offset), case.expected["+"])
    assert (NOTHING if fitted is None else fitted) == case.expected["="]


@pytest.mark.parametrize("marker_fill", ["???", "", "  \n ", "\ufffd1"])
def test_a_fill_that_says_nothing_new_is_not_shown(marker_fill: str) -> None:
    assert at_marker("x = ???\n", marker_fill) is None


def test_a_fill_that_leaves_another_hole_is_dropped() -> None:
    text = "x = ???\ny = \n"
    snapshot = Document("file:///a.py", "python", 1, text).snapshot()
    spans = [*carve.markers(snapshot), carve.at_cursor(snapshot, len(text) - 1)]
    candidates = [Candidate("r", texts) for texts in (("???", "f(???)"), ("f(???)", "f(???)"), ("1", "2"))]
    found, drops = fitting.fitted(snapshot, spans, candidates, marker="???")
    assert [candidate.texts for candidate in found] == [("1", "2"), ("f(???)", "")], "a hole may stay one"
    assert drops[fitting.Drop.NEW_HOLE] == 2


def test_marker_within_a_line_does_not_repeat_the_rest() -> None:
    assert at_marker("x = f(???, b)\n", "a, b)") == "a"


@pytest.mark.parametrize(
    ("language_id", "text", "fill", "shown"),
    [
        ("typescript", "foo(???, () => {});\n", ");", None),
        ("python", "s = f'{name} is {???} years'\n", "age} years old'", "age"),
    ],
)
def test_a_marker_hides_no_bracket_around_it(language_id: str, text: str, fill: str, shown: str | None) -> None:
    source = Source.parse(language_id, text)
    assert fitting.Fitter(source, marker="???").fit(carve.markers(source)[0], fill) == shown


PIECES = st.lists(st.sampled_from(["a", "b1", "(", ")", "[", "]", "{", "}", " ", ", ", ";", "."]), max_size=12)


AFTER = st.sampled_from(["()", "[]", "{}"]).flatmap(
    lambda pair: st.lists(st.sampled_from(["a", "b1", *pair, " ", ", ", ";", "."]), max_size=12)
)
"""With one kind of brackets: of several that cross each other, nobody knows which have partners."""


@given(PIECES.map("".join), AFTER.map("".join))
def test_no_cut_leaves_more_brackets_without_partners(fill: str, after: str) -> None:
    table = table_of("javascript")
    assume(not unclosed(fill, table) and not unopened(fill, table))
    source = Source.parse("javascript", f"if (???{after}) {{\n}}\n")
    fit = fitting.Fitter(source).fit(carve.markers(source)[0], fill) or ""
    cut, whole = (f"if ({each}{after}) {{" for each in (fit, fill))
    assert len(unclosed(cut, table) + unopened(cut, table)) <= len(unclosed(whole, table) + unopened(whole, table))
    assert not unclosed(fit, table) or unopened(after, table)


UNSEEN = (
    *("\x00", "\x1b", "\x07", "\x7f", "\x9b", "\x0b", "\xad", "\u061c", "\u200b", "\u200d", "\u200e", "\u202e"),
    *("\u2028", "\u2060", "\u2066", "\ufeff", "\ufffe", "\ufdd0", "\U0001ffff", "\u3164", "\u115f", "\ufe00"),
    *("\U000e0041", "\U000e0101", "\u180e", "\U0001d173", "\u2065", "\ufffc", "\u2800", "\ue000", "\ue0b0"),
    "\U0010fffd",
    *("\U000f0001", "\u1160", "\uffa0", "\u034f", "\u17b4", "\u17b5", "\u180b", "\U0003fffd", "\U000e0fff", "\ufe0f"),
)


@pytest.mark.parametrize("character", UNSEEN, ids=ascii)
def test_no_fill_brings_what_cannot_be_seen(character: str) -> None:
    fill = f'"a{character}b"'
    for unused in (fill, f"a{character}", f"{character}a"):
        assert character not in (at_marker("x = ???\n", unused) or "")
    assert at_marker(f'y = "{character}"\nx = ???\n', fill) == fill, "the document uses it"


def test_byte_order_mark_in_front_is_no_use_of_it() -> None:
    assert at_marker("\ufeffx = ???\n", '"a\ufeffb"') is None


VISIBLE = (
    *("\U0001f469\u200d\U0001f469\u200d\U0001f467", "\u2764\ufe0f", "\U0001f44d\U0001f3fd", "1\ufe0f\u20e3", "\u00e9"),
    *("e\u0301", "\u65e5\u672c", "\u05e9", "\U0001f3f3\ufe0f\u200d\U0001f308", "\u00a0", "\u00a9\ufe0f"),
    "\U0001f469\U0001f3fd\u200d\u2764\ufe0f\u200d\U0001f48b\u200d\U0001f468\U0001f3fd",
)


@pytest.mark.parametrize("text", VISIBLE, ids=ascii)
def test_fills_bring_emoji_and_letters_of_any_script(text: str) -> None:
    """Joiners and selectors in an emoji are part of what is seen."""
    assert at_marker("x = ???\n", f'"{text}"') == f'"{text}"'


@pytest.mark.parametrize(
    "text",
    [
        *("\u2764\ufe0f\ufe0f", "\U0001f600\u200d", "1\ufe0f\ufe0f\u20e3"),
        *("\u2764\ufe0f\u200d\u200d\U0001f525", "\u2800\ufe0f"),
        "\u200d".join(["\U0001f468"] * 5),
    ],
    ids=ascii,
)
def test_no_fill_brings_more_joiners_than_an_emoji_has(text: str) -> None:
    assert at_marker("x = ???\n", f'"{text}"') is None


@given(
    text=texts,
    fill=short_texts,
    language_id=st.sampled_from(["python", "rust", "typescript", "ruby", ""]),
    data=st.data(),
)
def test_any_fill_keeps_to_its_hole(text: str, fill: str, language_id: str, data: st.DataObject) -> None:
    source = Source.parse(language_id, text)
    span = carve.at_cursor(source, data.draw(st.integers(0, len(text))))
    assume(span is not None)
    fitted = fitting.Fitter(source).fit(span, span.starts_with + fill)
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
    assert fitting.Fitter(Source.parse("python", text)).fit(span, "a = 3\n    return a\n") == "a = 3"

"""From text and holes to a request and back: not one character outside the holes changes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.messages import Hole, HoleKind, PinnedText
from lsp_server import holes
from lsp_server.syntax.parsing import Source
from tests.lsp_server.texts import short_texts, texts


def hole(start: int, end: int) -> holes.HoleSpan:
    return holes.HoleSpan(start, end, HoleKind.LINE)


@st.composite
def holes_in_text(draw: st.DrawFn) -> tuple[str, list[holes.HoleSpan]]:
    text = draw(texts)
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8, unique=True)))
    return text, [hole(start, end) for start, end in zip(cuts[::2], cuts[1::2], strict=False)]


@given(holes_in_text())
def test_pinned_text_and_holes_make_up_the_text(case: tuple[str, list[holes.HoleSpan]]) -> None:
    text, spans = case
    parts = holes.build_segments(text, spans)
    assert "".join(part.text for part in parts) == text.replace("\ud83d", "\ufffd")
    assert sum(isinstance(part, Hole) for part in parts) == len(spans)
    assert all(part.text for part in parts if isinstance(part, PinnedText))
    msgspec.msgpack.encode(parts)  # also a text with half a surrogate pair can be sent


@given(holes_in_text(), st.lists(short_texts, min_size=4, max_size=4))
def test_text_outside_the_holes_is_byte_for_byte_the_same(
    case: tuple[str, list[holes.HoleSpan]], fills: list[str]
) -> None:
    text, spans = case
    result = holes.splice(text, spans, fills[: len(spans)])
    at = done = 0
    for span, fill in zip(spans, fills, strict=False):
        pinned = text[done : span.start].encode("utf-8", "surrogatepass")
        assert result[at:].encode("utf-8", "surrogatepass").startswith(pinned)
        at, done = at + span.start - done + len(fill), span.end
    assert result[at:] == text[done:]


def test_a_hole_tells_the_engine_what_the_span_asks_for() -> None:
    span = holes.HoleSpan(4, 6, HoleKind.EXPRESSION, "fo", single_line=True)
    asked = Hole(HoleKind.EXPRESSION, starts_with="fo", single_line=True, text="fo")
    assert holes.build_segments("x = fo", [span]) == (PinnedText("x = "), asked)


def test_the_model_is_not_shown_the_markers_of_other_holes() -> None:
    text = "a = ???\nb = ???\nc = ???\n"
    spans = holes.find_markers(Source.parse("python", text))
    first, middle, last = holes.build_segments(text, spans[1:2], "??? before\n", "??? after\n", marker="???")
    assert isinstance(middle, Hole)
    assert middle.text == "???"  # what stands in a hole is the user's
    assert (first, last) == (PinnedText("_ before\na = _\nb = "), PinnedText("\nc = _\n_ after\n"))


@given(texts)
def test_without_a_marker_text_is_shown_as_it_is(text: str) -> None:
    assert holes.replace_markers(text, "") == text
    assert "??" not in holes.replace_markers(text + "????" + text, "??")


@pytest.mark.parametrize(
    "spans", [[hole(0, 2), hole(1, 3)], [hole(2, 3), hole(0, 1)], [hole(1, 1), hole(1, 1)], [hole(0, 9)], [hole(2, 1)]]
)
def test_holes_that_overlap_or_reach_outside_are_an_error(spans: list[holes.HoleSpan]) -> None:
    with pytest.raises(ValueError, match="hole"):
        holes.build_segments("abc", spans)
    with pytest.raises(ValueError, match="hole"):
        holes.splice("abc", spans, ["x"] * len(spans))

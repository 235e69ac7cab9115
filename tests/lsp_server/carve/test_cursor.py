"""The hole at a cursor in any text, beyond what the fixture files can list."""

from hypothesis import given
from hypothesis import strategies as st

from inference.messages import HoleKind
from lsp_server import carve
from lsp_server.syntax.parsing import Source
from tests.lsp_server.texts import texts


@given(text=texts, language_id=st.sampled_from(["python", ""]))
def test_a_hole_at_any_offset_of_any_text_keeps_what_is_typed(text: str, language_id: str) -> None:
    source = Source.parse(language_id, text)
    for offset in range(len(text) + 1):
        span = carve.at_cursor(source, offset)
        if span is None or text[span.start : span.end] == carve.DEFAULT_MARKER:
            continue
        between = text[:offset].endswith("\r") and text.startswith("\n", offset)
        assert 0 <= span.start <= offset - between <= span.end <= len(text)
        assert span.starts_with.startswith(text[span.start : offset - between])
        assert not {"\r", "\n"} & set(text[span.start : span.end])


def test_missing_grammar_falls_back_to_indentation() -> None:
    source = Source("def f():\n    ", "python", None, "")
    assert carve.at_cursor(source, len(source.text)) == carve.Span(13, 13, HoleKind.BODY)

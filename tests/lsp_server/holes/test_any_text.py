"""In any text, in any language, at any place: spans are inside the text, and any fill keeps to its hole."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_server import holes
from lsp_server.fill import postprocess
from lsp_server.syntax.languages import TABLES
from lsp_server.syntax.parsing import Source
from tests.lsp_server.fixtures import cases
from tests.lsp_server.texts import PIECES, short_texts

FIXTURES = Path(__file__).parent / "fixtures"
CODE = [
    *PIECES,
    *("\0", "//", "/*", "*/", "--", "<!--", "-->", "<div>", "</div>", "`", "${", "#{", "=>", "->", ";", "&&", "|x|"),
    *("fn f() {\n", "function f() {}", "def f\n", "end\n", "then\n", "do\n", "}\n", "class A {\n", "todo!()", "TODO"),
    *("throw new Error('TODO')", 'panic("TODO")', "key:\n  - ", "[a]\n", "<?php\n", "if (a) {", "else {", "()"),
]
random_texts = st.lists(st.sampled_from(CODE), max_size=25).map("".join)


NESTED = [
    "(" * 20_000,
    "[{" * 4_000,
    "f(" * 3_000 + ")" * 3_000,
    "f(() => {" * 800,
    "{\n" * 3_000,
    "<div>" * 3_000,
    "x" * 50_000,
]


@st.composite
def damaged(draw: st.DrawFn, code: list[str]) -> str:
    """A piece of real code in which something is lost and something else got in."""
    text = draw(st.sampled_from(code))
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(start + 12, len(text))))
    return text[:start] + draw(short_texts) + text[end:]


def code_of(language_id: str) -> list[str]:
    found = [case.values[0].text for case in cases(FIXTURES / f"{language_id}.txt", "---")]  # type: ignore[union-attr]
    return [text.translate(dict.fromkeys(map(ord, "⟦⟧«»‸"))) for text in found]


@pytest.mark.parametrize("language_id", [*(table.ids[0] for table in TABLES), "plain"])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_span_lies_inside_the_text(language_id: str, data: st.DataObject) -> None:
    text = data.draw(st.one_of(random_texts, damaged(code_of(language_id))), "text")
    text = text.replace("\n", "\r\n") if data.draw(st.booleans(), "CRLF") else text
    start = data.draw(st.integers(0, len(text)), "start")
    end = data.draw(st.integers(start, len(text)), "end")
    source = Source.parse(language_id, text)
    found = holes.find_placeholders(source, "???", start, end)
    assert all(start <= span.start and span.end <= end for span in found)
    assert set(holes.find_markers(source, "???", start, end)) <= set(found)
    holes.splice(text, found, ["x"] * len(found))  # which rejects what overlaps or is out of order
    function = holes.function_span_around(source, start, end)
    assert function is None or 0 <= function[0] <= start <= end <= max(function[1], end) <= len(text)
    cursor = holes.hole_at_cursor(source, start)
    if cursor is not None and text[cursor.start : cursor.end] != holes.DEFAULT_MARKER:
        typed_to = start - (text.startswith("\r\n", start - 1) and start > 0)
        assert cursor.start <= typed_to <= cursor.end
        assert cursor.starts_with.startswith(text[cursor.start : typed_to]), "what is typed stays"
        assert not {"\r", "\n"} & set(text[cursor.start : cursor.end])
    fill = data.draw(short_texts, "fill")
    for span in (
        cursor,
        holes.body_hole_around(source, start),
        holes.hole_in_selection(source, start, end),
        holes.statement_around(source, start, end),
    ):
        if span is not None:
            holes.splice(text, [span], ["x"])
            assert span.single_line <= (not {"\r", "\n"} & set(text[span.start : span.end] + span.starts_with))
            fitted = postprocess.FillPostprocessor(source).fit(span, span.starts_with + fill)
            if fitted is not None:
                assert fitted.startswith(span.starts_with) and fitted != text[span.start : span.end]
                assert not (span.single_line and {"\r", "\n"} & set(fitted))


@pytest.mark.parametrize("text", NESTED, ids=lambda text: text[:6])
@pytest.mark.parametrize("language_id", ["python", "typescript", "html", "plain"])
def test_deeply_nested_text_raises_nothing(language_id: str, text: str) -> None:
    source, middle = Source.parse(language_id, text), len(text) // 2
    holes.find_placeholders(source)
    holes.function_span_around(source, middle, middle + 5)
    holes.body_hole_around(source, middle)
    holes.statement_around(source, middle, middle + 5)
    span = holes.hole_at_cursor(source, middle)
    assert span is None or span.start <= middle <= span.end
    assert holes.hole_in_selection(source, middle, len(text)) is not None

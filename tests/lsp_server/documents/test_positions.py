"""Positions as editors count them, and their lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.documents.positions import Encoding, LineIndex, clip_units
from lsp_server.syntax.parsing import replace_lone_surrogates
from tests.lsp_server import texts as hard

texts = hard.texts.map(replace_lone_surrogates)
ENCODINGS = st.sampled_from(Encoding)


@pytest.mark.parametrize("encoding", Encoding)
def test_a_negative_position_is_the_start(encoding: Encoding) -> None:
    index = LineIndex("é\nb")
    assert index.offset(-1, 1, encoding) == 0
    assert index.offset(1, -1, encoding) == 2


@given(text=texts, encoding=ENCODINGS)
def test_every_offset_comes_back_from_its_position(text: str, encoding: Encoding) -> None:
    index = LineIndex(text)
    for offset in range(len(text) + 1):
        inside_line_end = text[:offset].endswith("\r") and text.startswith("\n", offset)
        assert index.offset(*index.position(offset, encoding), encoding) == offset - inside_line_end


@given(text=texts)
def test_lines_and_their_ends_make_up_the_text(text: str) -> None:
    index = LineIndex(text)
    starts = [index.line_start(line) for line in range(index.line_count + 1)]
    lines = [text[starts[line] : index.line_end(line)] for line in range(index.line_count)]
    ends = [text[index.line_end(line) : starts[line + 1]] for line in range(index.line_count)]
    assert "".join(line + end for line, end in zip(lines, ends, strict=True)) == text
    assert set(ends[:-1]) <= {"\n", "\r\n", "\r"}
    assert ends[-1] == ""


@pytest.mark.parametrize("encoding", list(Encoding))
def test_the_first_units_of_a_text_run_over_its_lines(encoding: Encoding) -> None:
    text = "a\u00e9\n\U0001f600b"
    width = {Encoding.UTF8: 4, Encoding.UTF16: 2, Encoding.UTF32: 1}[encoding]
    before = {Encoding.UTF8: 4, Encoding.UTF16: 3, Encoding.UTF32: 3}[encoding]
    assert clip_units(text, before, encoding) == text[:3]
    assert clip_units(text, before + width, encoding) == text[:4]
    assert clip_units(text, before + width - 1, encoding) == text[:3], "half a character is left out"
    assert clip_units(text, 99, encoding) == text
    assert clip_units(text, 0, encoding) == ""

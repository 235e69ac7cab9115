"""Only a text of a reasonable length gets a tree. Offsets convert both ways between characters and bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.syntax import parsing
from lsp_server.syntax.parsing import ByteOffsets, Source, well_formed
from tests.lsp_server.texts import texts


def test_a_text_that_is_too_long_gets_no_tree() -> None:
    longest = "#" * parsing.MAX_PARSED_CHARACTERS
    assert parsing.parse("python", longest) is not None
    assert parsing.parse("python", longest + "#") is None


def test_lone_surrogate_is_replaced() -> None:
    text = "x = '\ud83d'"
    assert Source.parse("python", text).tree is not None
    assert well_formed(text) == "x = '\ufffd'"
    assert well_formed("x = '😀'") == "x = '😀'"


@given(text=texts, repeat=st.sampled_from([1, 400]))
def test_every_offset_comes_back_from_its_byte(text: str, repeat: int) -> None:
    text *= repeat
    offsets = ByteOffsets(text)
    for offset in {0, len(text) // 3, len(text) // 2, max(len(text) - 1, 0), len(text), 2048 % (len(text) + 1)}:
        byte = len(text[:offset].encode("utf-8", "replace"))
        assert offsets.to_byte(offset) == byte
        assert offsets.to_offset(byte) == offset


@pytest.mark.parametrize("length", [2047, 2048, 2049, 4096])
def test_the_end_of_a_text_is_found_at_the_edge_of_a_chunk(length: int) -> None:
    offsets = ByteOffsets("é" * length)
    assert offsets.to_offset(offsets.to_byte(length)) == length

"""The tokenizer is lossless and splits where code does."""

from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from inference.training import tokenizer
from inference.training.tokenizer import FIRST_TEXT_TOKEN, SPECIAL_TOKENS

_TEXT = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("\n\r\t  _\u00a0\u2028é😀")))


def test_every_text_comes_back_as_it_was(small_tokenizer: Tokenizer) -> None:
    """Any text, odd white space and the names of special tokens included."""

    @given(_TEXT)
    @example("if a:\n\n    return <mask>\r\n\t x  # <eos>   \n")
    def check(text: str) -> None:
        ids = small_tokenizer.encode(text, add_special_tokens=False).ids
        assert small_tokenizer.decode(ids, skip_special_tokens=False) == text
        assert all(id_ >= FIRST_TEXT_TOKEN for id_ in ids)

    check()


def test_special_tokens_have_the_ids_the_engine_is_told(small_tokenizer: Tokenizer) -> None:
    assert [small_tokenizer.token_to_id(name) for name in SPECIAL_TOKENS] == list(range(FIRST_TEXT_TOKEN))


def test_a_line_break_and_its_indentation_are_one_token(small_tokenizer: Tokenizer) -> None:
    tokens = small_tokenizer.encode("def f(self):\n        return self", add_special_tokens=False).ids
    pieces = [small_tokenizer.decode([id_]) for id_ in tokens]
    assert "\n        " in pieces and pieces[-2:] == ["return", " self"]


def test_a_saved_tokenizer_still_takes_special_names_for_text(small_tokenizer: Tokenizer, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """The switch for it is not part of the file, so loading sets it."""
    file = tmp_path / "tokenizer.json"
    small_tokenizer.save(str(file))
    assert len(tokenizer.load(file).encode("<slack>", add_special_tokens=False).ids) > 1

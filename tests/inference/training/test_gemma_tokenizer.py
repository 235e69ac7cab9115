"""The tokenizer of Gemma's kind: it loses nothing, and looks to the engine like the released checkpoint's."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from inference.engine.canvas.vocabulary import Vocabulary
from inference.training import gemma_tokenizer

_SPACE = "\u2581"
_CHARACTERS = st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("\n\r\t  _\u00a0\u2028é😀"))
_TEXT = st.text(_CHARACTERS.filter(lambda character: character != _SPACE))


@pytest.fixture(scope="module")
def vocabulary(small_gemma_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    """The tokenizer as the engine reads it."""
    file = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    small_gemma_tokenizer.save(str(file))
    return Vocabulary(Tokenizer.from_file(str(file)))


def test_every_text_comes_back_as_it_was(vocabulary: Vocabulary) -> None:
    """Any text without the character that stands for a space, byte for byte; names of special tokens are text."""

    @given(_TEXT)
    @example("if a:\n\n    return <mask>\r\n\t x  # <|turn>   \n" + 40 * " " + 12 * "\n")
    def check(text: str) -> None:
        ids = vocabulary.encode(text)
        assert vocabulary.decode(ids) == text
        assert not set(ids) & set(vocabulary.special_ids)

    check()


def test_special_tokens_have_the_released_names_and_ids(vocabulary: Vocabulary) -> None:
    """Those that prompts are made of, and those that end a reply."""
    released = {"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3, "<|tool_response>": 50, "<|turn>": 105, "<turn|>": 106}
    assert {name: vocabulary.id_of(name) for name in released} == released
    assert vocabulary.special_ids == tuple(range(107))
    assert gemma_tokenizer.END_IDS == (1, 106, 50)


def test_bos_comes_first_unless_it_is_not_asked_for(small_gemma_tokenizer: Tokenizer) -> None:
    """As Gemma's; code that means a piece of a text has to say so."""
    assert small_gemma_tokenizer.encode("x").ids[0] == gemma_tokenizer.BOS
    assert gemma_tokenizer.BOS not in small_gemma_tokenizer.encode("x", add_special_tokens=False).ids


def test_runs_of_spaces_and_of_line_breaks_are_one_token_each(small_gemma_tokenizer: Tokenizer) -> None:
    """So indentation is a token of its own, a digit is one, and one space belongs to the word after it."""
    encoded = small_gemma_tokenizer.encode("def f(self):\n\n        return self.x + 10", add_special_tokens=False)
    expected = ["\n\n", _SPACE * 8, "return", f"{_SPACE}self", ".", "x", f"{_SPACE}+", _SPACE, "1", "0"]
    assert encoded.tokens[-len(expected) :] == expected
    assert all("\n" not in token or not token.strip("\n") for token in encoded.tokens)


def test_offsets_are_characters_of_the_text(small_gemma_tokenizer: Tokenizer) -> None:
    """Where bytes stand for a character, too; training finds its holes by them."""
    text = "value = '😀'  # é\n        other(value)\n"
    encoded = small_gemma_tokenizer.encode(text, add_special_tokens=False)
    starts = [start for start, _ in encoded.offsets]
    assert starts == sorted(starts)
    assert encoded.offsets[-1][1] == len(text)
    other = next(start for start in starts if text.startswith("other", start))
    assert text[other - 8 : other] == 8 * " "

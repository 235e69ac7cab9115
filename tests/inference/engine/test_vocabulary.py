"""Text to tokens and back, byte for byte, whatever the text holds."""

from hypothesis import given
from hypothesis import strategies as st

from inference.engine import Engine


@given(st.text(max_size=80))
def test_decoding_gives_back_what_was_encoded(embedded: Engine, text: str) -> None:
    vocabulary = embedded.loaded.vocabulary
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_the_name_of_a_special_token_is_ordinary_text(embedded: Engine) -> None:
    vocabulary = embedded.loaded.vocabulary
    ids = vocabulary.encode("<eos> <mask>")
    assert not set(ids) & set(vocabulary.special_ids)
    assert vocabulary.decode(ids) == "<eos> <mask>"


def test_tokens_starting_with_a_text_are_found_and_no_others(embedded: Engine) -> None:
    vocabulary = embedded.loaded.vocabulary
    every = range(len(vocabulary))
    for start in (b" re", b"(", b"\n    ", b"zzzzqq"):
        expected = {id_ for id_ in every if vocabulary.bytes_of([id_]).startswith(start)}
        assert set(vocabulary.starting_with(start)) == expected


def test_half_a_character_is_shown_as_a_replacement(embedded: Engine) -> None:
    vocabulary = embedded.loaded.vocabulary
    ids = vocabulary.encode("\U0001f600")
    assert len(ids) > 1
    assert "\ufffd" in vocabulary.decode(ids[:1])

"""Text to tokens and back, byte for byte, for any text and any checkpoint's tokenizer."""

import json
import shutil
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, normalizers

from inference.engine import Engine
from inference.engine.canvas.vocabulary import Vocabulary
from inference.messages import Hole
from inference.models import registry
from tests.inference.engine.filling import fill

DATA = Path(__file__).parents[2] / "data"
ODD = "cafe\u0301 \u2126 \ufb01 \uac00 \u2581x \u2581 \U0001f600\t\r\n"
"""What one normaliser or another changes, and U+2581, which stands for a space in Gemma's tokens."""

SPACE = "\u2581"

NORMALISERS = {
    "masked": normalizers.NFC(),
    "fim": normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip()]),
    "twin": normalizers.Sequence([normalizers.NFC(), normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]),
}


@cache
def normalising(name: str) -> Vocabulary:
    tokenizer = Tokenizer.from_file(str(DATA / name / "tokenizer.json"))
    tokenizer.normalizer = NORMALISERS[name]
    return Vocabulary(tokenizer)


@pytest.fixture(scope="module")
def nfc(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("nfc")
    shutil.copytree(DATA / "masked", folder, dirs_exist_ok=True)
    stated = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(stated | {"normalizer": {"type": "NFC"}}))
    return Engine(registry.load(str(folder), device="cpu"))


@given(st.text(max_size=80))
def test_decoding_gives_back_what_was_encoded(embedded: Engine, text: str) -> None:
    vocabulary = embedded.loaded.vocabulary
    assert vocabulary.decode(vocabulary.encode(text)) == text


@pytest.mark.parametrize("name", NORMALISERS)
@settings(deadline=None)
@given(text=st.text(max_size=40) | st.text(st.sampled_from(ODD), max_size=20))
def test_a_normaliser_changes_no_text(name: str, text: str) -> None:
    vocabulary = normalising(name)
    assert vocabulary.decode(vocabulary.encode(text)) == text


@pytest.mark.parametrize("name", ["masked", "twin"])
def test_normal_text_has_the_tokens_that_it_had(name: str) -> None:
    stated = Tokenizer.from_file(str(DATA / name / "tokenizer.json"))
    for text in ("def f(x):\n    return {'caf\u00e9': x}\n", "\u03a9 = 1", "  x"):
        assert normalising(name).encode(text) == stated.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("text", ["'cafe\u0301'", "\u2126", "x\u212b = 1"])
def test_text_that_is_not_normal_stays_what_it_is(nfc: Engine, text: str) -> None:
    assert fill(nfc, "x = ", Hole(text=text, strength=0.0), "\n", max_steps=2).text == text
    assert fill(nfc, f"{text}\ny = ", Hole(starts_with=text, max_tokens=4), "\n", max_steps=2).text.startswith(text)


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

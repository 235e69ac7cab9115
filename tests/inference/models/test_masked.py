"""Masked-diffusion checkpoints are read as published, and every row sees every row."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.engine.engine import Engine
from inference.messages import Hole
from inference.models import registry, tokenizer_files
from inference.models.family import ModelAdapter, ModelError
from inference.models.infill_config import HoleNoise
from inference.models.llama import precision
from tests.inference.engine.filling import fill
from tests.inference.models import random_masked
from tests.inference.models.exact_masked import load_exact
from tests.inference.models.random_masked import BOS, EOS, EXPAND, MASK, VOCABULARY_SIZE, random_qwen2, stock_logits
from tests.inference.models.test_checkpoint import rewrite

PUBLISHED = {
    "open-dcoder": random_masked.save_open_dcoder,
    "dream": random_masked.save_dream,
    "dreamon": lambda folder, **shape: random_masked.save_dream(folder, expand=True, **shape),
    "mdlm": random_masked.save_mdlm,
}
IDS = torch.arange(23) * 37 % 256
PREFIX = 9


@pytest.fixture(params=PUBLISHED)
def published(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    PUBLISHED[request.param](tmp_path)
    return request.param, tmp_path


def predicted(family: ModelAdapter, ids: torch.Tensor, prefix: int = PREFIX, **other: Any) -> torch.Tensor:
    context = family.open_prefix(ids[:prefix].tolist())
    assert list(context.prefill()) == []
    return context.predict(ids[None, prefix:], torch.arange(len(ids) - prefix), **other)


def test_logits_equal_the_stock_layers(published: tuple[str, Path]) -> None:
    name, folder = published
    wanted = stock_logits(random_qwen2(), IDS.tolist(), shifted=name != "mdlm")
    torch.testing.assert_close(predicted(load_exact(folder), IDS), wanted[PREFIX:], atol=2e-4, rtol=1e-4)
    torch.testing.assert_close(predicted(load_exact(folder), IDS, 0), wanted, atol=2e-4, rtol=1e-4)


def test_what_a_checkpoint_says_of_itself_is_read(published: tuple[str, Path]) -> None:
    name, folder = published
    family = load_exact(folder)
    assert family.traits.noise is HoleNoise.MASK
    assert not family.traits.can_score
    assert family.traits.vocabulary_size == VOCABULARY_SIZE
    infill_config, dream = family.infill_config, name.startswith("dream")
    assert (infill_config.mask_token_id, infill_config.shifted_logits) == (MASK, name != "mdlm")
    resizing = (EXPAND, EOS) if name == "dreamon" else (None, None)
    assert (infill_config.expand_token_id, infill_config.delete_token_id) == resizing
    assert (infill_config.bos_token_id, infill_config.eos_token_id) == ((BOS, EOS) if dream else (None, None))
    assert family.traits.can_resize is (name == "dreamon")
    text = "def f(x):\n    return 'é' <|mask|>"
    assert bytes(family.tokenizer.decode(family.tokenizer.encode(text).ids), "utf-8").startswith(b"def f(x):\n")


@pytest.mark.parametrize("dtype", ["8bit", "bfloat16"])
def test_fewer_bits_predict_much_the_same(tmp_path: Path, dtype: str) -> None:
    random_masked.save_dream(tmp_path)
    exact, rough = (
        predicted(registry.load_model(str(tmp_path), device="cpu", dtype=one), IDS) for one in ("float32", dtype)
    )
    assert torch.nn.functional.cosine_similarity(rough, exact, dim=1).min() > 0.98


def test_a_hole_is_filled(published: tuple[str, Path]) -> None:
    segments = ("def f(x):\n    return ", Hole(min_tokens=4, max_tokens=8, single_line=True), "\n\nf(1)\n")
    text = fill(Engine(load_exact(published[1])), *segments, seed=1, max_steps=4).text
    assert text and "\n" not in text


BROKEN = {
    "no mask token": (lambda folder: random_masked.save_open_dcoder(folder, mask="<x>"), "writes from left to right"),
    "mask beyond the vocabulary": (partial(rewrite, mask_token_id=5000), "mask_token_id: 5000 is not a token"),
    "fewer layers": (partial(rewrite, num_hidden_layers=2), "are no part of a 'qwen2' model"),
    "no width": (partial(rewrite, hidden_size=None), "hidden_size"),
    "layers without end": (partial(rewrite, num_hidden_layers=10**9), "num_hidden_layers"),
    "another activation": (partial(rewrite, hidden_act="relu"), "only 'silu' is"),
    "windows": (partial(rewrite, use_sliding_window=True), "windows are not supported"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_checkpoint_that_makes_no_sense_is_refused(name: str, tmp_path: Path) -> None:
    breaking, message = BROKEN[name]
    random_masked.save_open_dcoder(tmp_path)
    breaking(tmp_path)
    with pytest.raises(ModelError, match=message):
        Engine(registry.load_model(str(tmp_path), device="cpu"))


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    model = random_qwen2()
    model.model.layers[1].mlp.up_proj.weight.data[3, 4] = float("nan")
    random_masked.save_open_dcoder(tmp_path)
    model.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"layers.1.mlp.up_proj.weight holds NaN or infinity"):
        registry.load_model(str(tmp_path), device="cpu")


def test_words_are_split_as_qwen2_does(tmp_path: Path) -> None:
    """Dream's tokenizer is made of its parts; of normal text Qwen2Tokenizer of transformers says the same."""
    from transformers import Qwen2Tokenizer

    random_masked.save_dream(tmp_path)
    merges = [("d", "e"), ("de", "f"), ("Ġ", "x"), ("Ġ", "Ġ"), ("ĠĠ", "ĠĠ"), ("Ċ", "Ċ"), ("1", "2"), ("Ã", "©")]
    vocabulary = {name: id_ for id_, name in enumerate([*random_masked.BYTES, *map("".join, merges)])}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    stated = json.loads((tmp_path / "tokenizer_config.json").read_text())
    tokens = stated["added_tokens_decoder"].values()
    stated["added_tokens_decoder"] = {str(len(vocabulary) + number): token for number, token in enumerate(tokens)}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(stated))
    found = registry.open_checkpoint(str(tmp_path))
    stock = Qwen2Tokenizer(vocab=vocabulary, merges=merges)
    for text in ("def f(x):\n    return 12 + x\n\n\n", "café café's  \r\n\tx==1", "x    \n\n  def"):
        assert tokenizer_files.load_tokenizer(found).encode(text).ids == stock.encode(text)


def with_added(folder: Path, **entries: Any) -> Path:
    """A checkpoint as Dream's, whose tokenizer_config.json has these tokens, too."""
    random_masked.save_dream(folder)
    file = folder / "tokenizer_config.json"
    stated = json.loads(file.read_text())
    stated["added_tokens_decoder"] |= entries
    file.write_text(json.dumps(stated))
    return folder


def test_odd_tokens_that_nobody_needs_are_passed_over(tmp_path: Path) -> None:
    odd = {"-7": {"content": "<a>"}, "x": {"content": "<b>"}, "900": {"content": 5}, "901": "<c>", "902": None}
    found = registry.open_checkpoint(str(with_added(tmp_path, **odd)))
    assert found.infill_config.mask_token_id == MASK
    assert tokenizer_files.load_tokenizer(found).token_to_id("<|mask|>") == MASK
    random_masked.save_open_dcoder(tmp_path)
    assert registry.open_checkpoint(str(tmp_path)).infill_config.mask_token_id == MASK


def test_an_odd_token_that_is_needed_is_missed(tmp_path: Path) -> None:
    folder = with_added(tmp_path, **{str(MASK): {"content": ["<|mask|>"]}})
    with pytest.raises(ModelError, match=f"token {EXPAND} leaves a gap"):
        tokenizer_files.load_tokenizer(registry.open_checkpoint(str(folder)))


def test_a_processor_without_matrix_units_computes_in_float32() -> None:
    """Then in 8 bits: in bfloat16 it is slower than in either, but for a few rows of a large model."""
    able = torch.cpu.get_capabilities()
    cpu = torch.device("cpu")
    found = precision.formats_for_many_rows(cpu, None)
    if able.get("amx_bf16") or able.get("bf16"):
        assert found == ["bfloat16", "float32", "8bit"]
    else:
        assert found == ["float32", "8bit", "bfloat16"]
    assert precision.formats_for_many_rows(cpu, "bfloat16") == ["bfloat16"]
    with pytest.raises(ModelError, match="dtype '4bit' does not run a model of this kind on cpu; .* 8bit"):
        precision.formats_for_many_rows(cpu, "4bit")

"""The model reads and writes like transformers', with any cache contents and any number of rows per pass."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from inference.engine.engine import Engine
from inference.models import registry
from inference.models.family import ModelError
from inference.models.fim.adapter import LlamaFimAdapter
from inference.models.fim.prompt_handle import CHUNK_TOKENS
from inference.models.llama import precision, weights
from inference.models.tensor_readers import open_tensors
from tests.inference.models.fim.checkpoints import (
    FIM,
    KINDS,
    LLAMA3,
    MIDDLE,
    PREFIX,
    SUFFIX,
    changed,
    greedy,
    loaded,
    random_checkpoint,
    stock,
    stock_logits,
    write_quantised,
)
from tests.inference.models.test_checkpoint import rewrite
from tests.served.to_gguf import Stored
from tests.served.to_gguf import main as as_gguf

BEFORE = "import os\n\n\ndef sizes(folder):\n    found = []\n    for name in os.listdir(folder):\n        "
AFTER = "\n    return found\n"


@contextmanager
def read(family: LlamaFimAdapter, ids: Sequence[int]) -> Iterator[Any]:
    with closing(family.open_prefix(ids)) as context:
        list(context.prefill())
        yield context


@pytest.fixture(scope="module")
def family() -> LlamaFimAdapter:
    return loaded()


def test_every_row_is_what_transformers_says(tmp_path: Path) -> None:
    random = (random_checkpoint(tmp_path / kind, kind.split()[0], **more) for kind, more in KINDS.items())
    for folder in (FIM, *random):
        family = loaded(folder)
        ids = family.fim_prompt(BEFORE, AFTER)
        with read(family, ids[:5]) as context:
            writing = context.continuation(len(ids))
            rows = [writing.verify(torch.tensor([ids[5:12]])), writing.verify(torch.tensor([ids[12:]]))]
            wanted = stock_logits(stock(folder), ids)[4:]
            torch.testing.assert_close(torch.cat(rows, 1)[0], wanted, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ["qwen2", "llama plain", "llama linear", "llama llama3", "granite"])
def test_a_model_as_a_file_is_what_its_folder_is(tmp_path: Path, kind: str) -> None:
    folder = FIM if kind == "qwen2" else random_checkpoint(tmp_path / "folder", kind.split()[0], **KINDS[kind])
    as_gguf(folder, tmp_path / "model.gguf")
    one, other = loaded(folder), loaded(tmp_path / "model.gguf")
    assert other.stop_ids == one.stop_ids
    ids = one.fim_prompt(BEFORE, AFTER)
    assert other.fim_prompt(BEFORE, AFTER) == ids
    found, wanted = (each.open_prefix([]).log_probabilities([ids])[0] for each in (other, one))
    torch.testing.assert_close(found, wanted, atol=2e-4, rtol=1e-4)
    loaded(tmp_path / "model.gguf", "bfloat16").open_prefix([]).log_probabilities([ids])


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"attention_bias": True}, "with biases is not supported"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}}, "'yarn' is not supported"),
        ({"rope_parameters": LLAMA3 | {"low_freq_factor": 4.0}}, "low_freq_factor must be less"),
        ({"rope_parameters": {"rope_type": "linear", "factor": 0}}, "factor"),
        ({"partial_rotary_factor": 0.5}, "only a part of each head"),
        ({"num_key_value_heads": 3}, "does not divide"),
        ({"head_dim": 32}, "describes model.layers.0.self_attn"),
        ({"num_hidden_layers": 4}, "the weight model.layers.3.* is missing"),
    ],
)
def test_a_llama_that_makes_no_sense_is_refused(tmp_path: Path, config: dict[str, object], words: str) -> None:
    rewrite(random_checkpoint(tmp_path, "llama"), **config)
    with pytest.raises(ModelError, match=words):
        registry.open_checkpoint(str(tmp_path))


def test_log_probabilities_are_those_of_one_causal_pass(family: LlamaFimAdapter) -> None:
    ids = family.fim_prompt(BEFORE, AFTER)
    wanted = stock_logits(stock(), ids).log_softmax(-1)
    for prefix in (0, 1, 30):
        with read(family, ids[:prefix]) as context:
            found, short = context.log_probabilities([ids[prefix:], ids[prefix : prefix + 1]])
        first = max(prefix, 1)
        right = wanted[first - 1 : -1].gather(1, torch.tensor(ids[first:])[:, None])[:, 0]
        torch.testing.assert_close(found, right, atol=2e-4, rtol=1e-4)
        torch.testing.assert_close(short, right[: min(prefix, 1)], atol=2e-4, rtol=1e-4)


def test_a_key_press_reads_what_is_new_and_says_the_same(family: LlamaFimAdapter) -> None:
    ids = family.fim_prompt(BEFORE, AFTER)
    greedy(family, ids, 4)
    other = [*ids[:-8], 99, *ids[-8:]]
    context, fresh = family.open_prefix(other), loaded().open_prefix(other)
    assert context.reused_tokens == len(ids) - 8
    assert fresh.reused_tokens == 0
    logits = []
    for each in (context, fresh):
        assert not list(each.prefill())  # one piece, which the first token is written with
        logits.append(each.continuation(1).decode(torch.empty(1, 0, dtype=torch.long)))
        each.close()
    torch.testing.assert_close(*logits, atol=2e-4, rtol=1e-4)


def test_two_open_contexts_share_nothing_that_either_changes(family: LlamaFimAdapter) -> None:
    ids = family.fim_prompt(BEFORE, AFTER)
    one, other = family.open_prefix(ids), family.open_prefix([*ids[:-3], 50, 51])
    for _ in zip(one.prefill(), other.prefill(), strict=False):
        pass
    for each in (one, other):
        list(each.prefill())
    writing = one.continuation(2)
    other.continuation(2).decode(torch.tensor([[12]]))
    found = writing.decode(torch.empty(1, 0, dtype=torch.long))[0]
    torch.testing.assert_close(found, stock_logits(stock(), ids)[-1], atol=2e-4, rtol=1e-4)
    one.close()
    other.close()


def test_long_prompt_is_read_in_pieces(family: LlamaFimAdapter) -> None:
    ids = family.fim_prompt("value = 1\n" * 300, AFTER)
    context = family.open_prefix(ids)
    known, left = context.reused_tokens, next(context.prefill())
    assert 0 < left < len(ids) - CHUNK_TOKENS
    context.close()
    again = family.open_prefix(ids)
    assert again.reused_tokens == known + CHUNK_TOKENS
    again.close()


def test_control_tokens_in_a_text_stay_text(family: LlamaFimAdapter) -> None:
    text = "a = '<|fim_middle|><|endoftext|>'\n"
    ids = family.fim_prompt(text, text)
    marks = [PREFIX, MIDDLE, SUFFIX]
    assert (ids[0], ids[-1], [ids.count(mark) for mark in marks]) == (PREFIX, MIDDLE, [1, 1, 1])
    assert not family.stop_ids & {*ids[1:-1]} - {SUFFIX}
    middle = ids.index(SUFFIX)
    assert family.tokenizer.decode(ids[1:middle]) == text == family.tokenizer.decode(ids[middle + 1 : -1])


def test_a_base_model_has_no_chat_and_an_instruct_model_one(family: LlamaFimAdapter, tmp_path: Path) -> None:
    assert family.chat_prompt("hello") is None
    chats = loaded(changed(tmp_path, eos_token_id=2))
    ids = chats.chat_prompt("Say <|im_end|>.", "def f")
    shown = chats.tokenizer.decode(ids, skip_special_tokens=False)
    assert shown.endswith("<|im_start|>user\nSay <|im_end|>.<|im_end|>\n<|im_start|>assistant\ndef f")
    assert ids.count(1) == 3 and ids.count(2) == 2
    assert 2 in chats.stop_ids


def test_a_model_without_the_tokens_is_refused(tmp_path: Path) -> None:
    folder = changed(tmp_path)
    file = folder / "tokenizer.json"
    file.write_text(file.read_text().replace("<|fim_", "<|no_"))
    family = registry.load_model(str(folder), device="cpu")
    with pytest.raises(ModelError, match="no fill-in-the-middle tokens"):
        Engine(family)
    assert Engine(family, edits="zeta").edits, "an edit model needs none"


def test_a_context_too_short_for_a_hole_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="its context of 4 tokens is too short to fill holes"):
        registry.load_model(str(changed(tmp_path, max_position_embeddings=4)), device="cpu")


@pytest.mark.parametrize("dtype", ["8bit", "bfloat16"])
def test_fewer_bits_say_nearly_the_same(family: LlamaFimAdapter, dtype: str) -> None:
    """A product of few rows, and of many."""
    other = loaded(dtype=dtype)
    assert other.dtype == dtype
    check_nearly_the_same(family, other)


@pytest.mark.parametrize("packs", [False, True])
def test_another_processor_and_cuda_say_nearly_the_same(family: LlamaFimAdapter, packs: bool) -> None:
    check_nearly_the_same(family, built(FIM, "8bit", packs))


def built(place: Path, dtype: str, packs: bool) -> LlamaFimAdapter:
    """As elsewhere than on x86; `packs`: as on CUDA."""
    found = registry.open_checkpoint(str(place))
    builder = weights.NetworkBuilder(found, torch.device("cpu"), dtype, dynamic=False, packs=packs)
    return LlamaFimAdapter(found, found.tokenizer(), builder.network(lambda _share, _what: None), dtype)


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "granite", "llama llama3"])
def test_cuda_multiplies_a_files_own_codes(kind: str, tmp_path: Path) -> None:
    """In the memory that was reckoned."""
    packed, plain = write_quantised(tmp_path / "model", kind)
    tensors = open_tensors(registry.open_checkpoint(str(packed)))
    assert precision.candidate_formats(torch.device("cuda"), None, tensors.packed_dtype) == ["4bit"]
    families = built(packed, "4bit", True), built(plain, "float32", False)
    ids = families[0].fim_prompt(BEFORE, AFTER)
    found, wanted = (each.open_prefix([]).log_probabilities([ids])[0] for each in families)
    assert (found - wanted).abs().max() < 0.01 * wanted.std()
    assert weights.packed_bytes(tensors, "4bit") == pytest.approx(held_bytes(families[0].network), rel=0.01)


@pytest.mark.parametrize("kind", ["Q5_0", "Q8_0"])
def test_a_packed_model_writes_what_its_weights_write(kind: str, tmp_path: Path) -> None:
    type_ = gguf.GGMLQuantizationType[kind]

    def stored(_name: str, values: np.ndarray) -> Stored:
        return (gguf.quantize(values, type_), type_) if values.ndim == 2 else (values, None)

    as_gguf(FIM, tmp_path / "m.gguf", stored)
    found, wanted = (built(tmp_path / "m.gguf", *way) for way in ((f"{kind[1]}bit", True), ("float32", False)))
    ids = found.fim_prompt(BEFORE, AFTER)
    assert greedy(found, ids, 12) == greedy(wanted, ids, 12)


def held_bytes(value: Any) -> int:
    """Of all tensors that an object holds."""
    if isinstance(value, torch.Tensor):
        return value.nbytes
    held = value if isinstance(value, list | tuple) else vars(value).values() if hasattr(value, "__dict__") else ()
    return sum(map(held_bytes, held))


def check_nearly_the_same(family: LlamaFimAdapter, other: LlamaFimAdapter) -> None:
    assert other.network.empty_cache(1).keys_values.nbytes == family.network.empty_cache(1).keys_values.nbytes // 2
    ids = family.fim_prompt(BEFORE, AFTER)
    for rows in (ids[:6], ids):
        found, wanted = (each.open_prefix([]).log_probabilities([rows])[0] for each in (other, family))
        assert (found - wanted).abs().mean() < 0.15
        torch.testing.assert_close(found, wanted, atol=1.0, rtol=0.2)


def test_formats_that_do_not_run_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="dtype '4bit' does not run .* 8bit, bfloat16, float32"):
        loaded(dtype="4bit")
    assert registry.open_checkpoint(str(FIM)).model_type == "qwen2"


def test_passes_are_timed_where_they_write_and_where_they_read(family: LlamaFimAdapter) -> None:
    engine = Engine(loaded())
    adapter = engine.loaded.fim_adapter
    assert (adapter.token_ms, adapter.prompt_token_ms) == (0, 0)
    other = family.fim_prompt("value = 1\n" * 40, AFTER)
    greedy(engine.loaded.adapter, other, 2)
    assert adapter.token_ms > 0
    assert adapter.prompt_token_ms > 0
    adapter.prompt_token_ms = 1e6  # somebody else had the processor
    adapter.prefill_when_idle([*other, *other])
    for device, is_counted in (("cuda", False), ("cpu", True)):
        engine.loaded.fim_adapter.device = torch.device(device)
        adapter.run_idle_task()
        assert (adapter.prompt_token_ms < 1e6) == is_counted


def test_without_products_of_x86_other_formats_are_measured() -> None:
    for dtype in ("8bit", "bfloat16", "float32"):
        assert precision.measure_kernels(dtype, dynamic=False).one_row_ns > 0


def test_a_machine_is_measured_once_and_that_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    threads = torch.get_num_threads()
    try:
        for count in (threads + 1, 1):
            torch.set_num_threads(count)
            precision.cpu_kernel_times.cache_clear()
            precision.cpu_kernel_times()
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
        precision.cpu_kernel_times.cache_clear()
    found = precision.cpu_kernel_times()
    assert 0 < found.prompt_row_ns <= found.one_row_ns
    (file,) = tmp_path.rglob("speed.json")
    assert len(json.loads(file.read_bytes())) == 1
    for content in (0.9, None):
        other = re.sub(r'("one_row_ns":)[^,}]+', rf"\g<1>{content}", file.read_text()) if content else "no JSON"
        file.write_text(other)
        precision.cpu_kernel_times.cache_clear()
        assert (precision.cpu_kernel_times().one_row_ns == 0.9) == (content == 0.9), "what is no JSON is measured again"
    precision.cpu_kernel_times.cache_clear()


def test_more_weights_and_a_new_place_take_ghost_text_longer() -> None:
    small, large = (
        precision.LatencyEstimate.from_pass_times(precision.estimate_pass_times(*weights, 20e9), weights[0])
        for weights in ((5e8, 4e8), (15e8, 13e8))
    )
    assert 0 < small.next_key_s < small.new_line_s < small.new_place_s < large.new_place_s
    assert precision.estimate_pass_times(5e8, 4e8, 1e9).pass_ms > 500, "each pass reads each weight"


def test_a_model_that_ran_here_is_predicted_by_its_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    name = precision.pass_times_key("qwen2.5-coder-0.5b")
    assert precision.best_pass_times(name) is None
    for pass_ms, prompt_token_ms in ((9.0, 2.0), (0.0, 1.0), (8.0, 3.0)):
        precision.save_pass_times(name, precision.PassTimes(pass_ms, prompt_token_ms))
    assert precision.best_pass_times(name) == precision.PassTimes(8.0, 2.0)

"""Models that fill the middle, through MLX: they read and write as through torch, from the same weights."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
import torch

from inference.models import model_store, registry
from inference.models.family import ModelError
from inference.models.fim.adapter import LlamaFimAdapter
from inference.models.fim.kept_suffix import KEEP_SUFFIX_VARIABLE
from inference.models.gguf import affine, header
from inference.models.llama.weights import NetworkBuilder
from inference.models.mlx.llama_weights import MlxNetworkBuilder
from inference.models.mlx.machine import MlxDeviceInfo
from tests.inference.models.fim.checkpoints import FIM, KINDS, greedy, loaded, random_checkpoint, write_quantised
from tests.inference.models.fim.test_family import (  # noqa: F401
    AFTER,
    BEFORE,
    test_a_key_press_reads_what_is_new_and_says_the_same,
    test_log_probabilities_are_those_of_one_causal_pass,
    test_long_prompt_is_read_in_pieces,
    test_two_open_contexts_share_nothing_that_either_changes,
)
from tests.inference.models.fim.test_kept_suffix import (  # noqa: F401
    PREFIX,
    SUFFIX,
    lines,
    read,
    test_only_new_text_and_the_start_of_the_suffix_are_read,
    test_rows_that_moved_far_are_read,
    test_the_line_below_and_what_was_kept_are_read_while_idle,
    test_what_was_read_ahead_in_part_is_used_and_the_rest_kept,
)
from tests.inference.models.test_affine import ROUNDED
from tests.inference.models.test_without_mlx import on_a_mac
from tests.served.to_gguf import main as as_gguf

on_mlx = partial(loaded, device="mlx")


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> LlamaFimAdapter:
    """One that has read a prompt, and keeps its suffix."""
    monkeypatch.setenv(KEEP_SUFFIX_VARIABLE, "1")
    family = on_mlx()
    read(family, PREFIX, SUFFIX)
    return family


def rows(family: LlamaFimAdapter) -> list[torch.Tensor]:
    """The logits behind a piece of a prompt, behind 16 tokens more, and behind one more."""
    ids = family.fim_prompt(BEFORE, AFTER)
    context = family.open_prefix([])
    writing = context.continuation(len(ids))
    found = [writing.verify(torch.tensor([part])) for part in (ids[:-17], ids[-17:-1], ids[-1:])]
    context.close()
    return found


def check_close(found: LlamaFimAdapter, wanted: LlamaFimAdapter, most: float) -> None:
    for ours, theirs in zip(rows(found), rows(wanted), strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() < most * theirs.norm()


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_what_torch_says(tmp_path: Path, kind: str) -> None:
    folder = random_checkpoint(tmp_path / "folder", kind.split()[0], **KINDS[kind])
    check_close(on_mlx(folder), loaded(folder), 1e-4)
    as_gguf(folder, tmp_path / "plain.gguf")
    check_close(on_mlx(tmp_path / "plain.gguf"), loaded(folder), 1e-4)


@pytest.fixture(scope="module", params=["qwen2", "qwen3", "granite", "llama llama3"])
def quantised(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_quantised(tmp_path_factory.mktemp("quantised"), request.param)


def test_a_files_own_codes_are_multiplied(quantised: tuple[Path, Path]) -> None:
    packed, plain = quantised
    found = on_mlx(packed, None)
    assert found.dtype == "4bit", "which most of the weights have"
    check_close(found, loaded(plain), 1e-3)


def test_they_are_close_in_what_a_gpu_multiplies(quantised: tuple[Path, Path]) -> None:
    """Float16, on the CPU here: no number overflows."""
    found = registry.open_checkpoint(str(quantised[0]))
    builder = MlxNetworkBuilder(found, MlxDeviceInfo(True, 1 << 40, 1 << 40), None)
    network = builder.network(lambda _share, _what: None)
    check_close(LlamaFimAdapter(found, found.tokenizer(), network, builder.dtype), loaded(quantised[1]), 5e-2)


def test_eight_bits_say_nearly_the_same() -> None:
    found = on_mlx(dtype="8bit")
    assert (found.dtype, found.traits.runs_on, str(found.device)) == ("8bit", "mlx:cpu", "cpu")
    check_close(found, loaded(), 0.03)
    ids = found.fim_prompt(BEFORE, AFTER)
    assert greedy(found, ids, 12) == greedy(loaded(), ids, 12)


def test_rows_are_the_same_alone_batched_and_rolled_back() -> None:
    family = on_mlx(dtype="8bit")
    ids = family.fim_prompt(BEFORE, AFTER)
    writing = family.open_prefix(ids[:16]).continuation(len(ids))
    together = writing.verify(torch.tensor([ids[16:32]]))
    for _ in range(2):
        writing.rollback(16)
        alone = torch.cat([writing.verify(torch.tensor([[id_]])) for id_ in ids[16:32]], 1)
        torch.testing.assert_close(alone, together[:, 1:], atol=1e-4, rtol=1e-4)


def test_kept_rows_are_those_of_the_new_positions(family: LlamaFimAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first layer they do not depend on the text before. Lines come, and others go."""
    monkeypatch.setenv(KEEP_SUFFIX_VARIABLE, "0")
    fresh = on_mlx()
    for prefix in (PREFIX + lines(2), PREFIX[: PREFIX.index("\n") + 1]):
        read(family, prefix, SUFFIX)
        read(fresh, prefix, SUFFIX)
        kept, exact = (each.prefixes.entries[0] for each in (family, fresh))
        assert kept.approximate_from is not None
        assert kept.ids == exact.ids
        pairs = (
            each.network.moved_rows(entry, 0, len(kept.ids), 0) for each, entry in ((family, kept), (fresh, exact))
        )
        keys, wanted = (torch.from_numpy(np.asarray(arrays[0])) for arrays in pairs)
        torch.testing.assert_close(keys, wanted, atol=1e-4, rtol=1e-3)


def test_prompts_that_nobody_reads_stay_within_the_limit(family: LlamaFimAdapter) -> None:
    one = family.prefixes.entries[0].size_bytes()
    family.prefixes.max_bytes = 3 * one
    for number in range(6):
        read(family, f"value_{number} = {number}\n" * 9, "")
    assert len(family.prefixes.entries) > 1
    assert family.prefixes.size_bytes() <= 3 * one


@pytest.mark.parametrize("name", ["blk.0.ffn_up.weight", "blk.1.attn_norm.weight"])
def test_nan_in_a_weight_is_a_clear_error(quantised: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    content = bytearray(quantised[0].read_bytes())
    tensor = header.read_header(quantised[0]).tensors[name]
    content[tensor.begin : tensor.end] = b"\xff" * (tensor.end - tensor.begin)
    (tmp_path / "nan.gguf").write_bytes(content)
    with pytest.raises(ModelError, match=r"layernorm|up_proj.*holds NaN or infinity; download the checkpoint again"):
        on_mlx(tmp_path / "nan.gguf", None)


def test_a_model_larger_than_the_memory_is_refused_unread() -> None:
    found = registry.open_checkpoint(str(FIM))
    with pytest.raises(ModelError, match=r"needs .* GB in bfloat16 or .* GB in 8bit, but Apple GPU has 0.0 GB free"):
        MlxNetworkBuilder(found, MlxDeviceInfo(True, 1 << 20, 1 << 20), None)


def test_a_format_that_does_not_run_is_named() -> None:
    with pytest.raises(ModelError, match=r"dtype '4bit' does not run .* on mlx:cpu; leave it out to use float32"):
        on_mlx(dtype="4bit")


def test_weights_rounded_again_are_said_once(quantised: tuple[Path, Path], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    on_mlx(quantised[0], None)
    assert sorted(caplog.messages) == [
        f"{quantised[0]}: its {kind} weights are rounded to {affine.code_bits(kind)} bits" for kind in sorted(ROUNDED)
    ]


@pytest.mark.parametrize(("model", "most_bytes"), [("qwen2.5-coder-0.5b", 0.45e9), ("qwen2.5-coder-1.5b", 1.2e9)])
def test_a_published_file_takes_little_memory_as_with_torch(model: str, most_bytes: float) -> None:
    """Both read the same groups; torch keeps keys and values in 16 bits. The logits were seen to differ by .0017."""
    if (place := model_store.find_model(model)) is None:
        pytest.skip(f"not pulled: infill-ls models pull {model}")
    before = mx.get_active_memory()
    found = on_mlx(place, None)
    assert mx.get_active_memory() - before < most_bytes
    checkpoint = registry.open_checkpoint(str(place))
    builder = NetworkBuilder(checkpoint, torch.device("cpu"), found.dtype, dynamic=False, packs=True)
    network = builder.network(lambda _share, _what: None)
    check_close(found, LlamaFimAdapter(checkpoint, checkpoint.tokenizer(), network, found.dtype), 3e-3)


def test_without_apples_gpu_torch_computes_unless_mlx_is_named() -> None:
    assert registry.load_model(str(FIM)).traits.runs_on == ""
    assert on_a_mac(f"print(registry.load_model({str(FIM)!r}).traits.runs_on)") == "\n", "as in a virtual machine"


def test_only_mlx_itself_is_needed() -> None:
    code = (
        "import sys; from inference.models import registry; registry.load_model(sys.argv[1], device='mlx'); "
        "assert 'mlx.core' in sys.modules and not {'mlx_vlm', 'transformers'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code, FIM], check=True)

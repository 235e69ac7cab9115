"""Kernels in Triton give what plain torch gives, in its interpreter here and compiled where there is a card.

Without a card they are also compiled, as far as to the machine code of cards with little shared memory.
"""

import importlib
import os
import subprocess
import sys
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from inference.engine.engine import Engine
from inference.messages import FilledHoles, Hole, InfillRequest, PinnedText
from inference.models import devices, packed, registry
from inference.models.diffusion_gemma.network import DiffusionGemmaNetwork
from inference.models.packed import PackedLinear, PackedWeight
from tests.inference.models.fim.checkpoints import greedy, write_quantised
from tests.inference.models.fim.test_family import built
from tests.inference.models.random_model import random_model
from tests.inference.models.test_four_bit import unpacked

pytest.importorskip("triton", reason="Triton is not on this system", exc_type=ImportError)
kernels: Any = importlib.import_module("inference.models.triton_kernels")
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # of exp in sigmoid
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROOT = Path(__file__).parents[3]
BITS = [4, 5, 6, 8]
ROWS = [1, 15, 16, 17, 256, 300]


def packed_randomly(shape: tuple[int, ...], bits: int) -> PackedWeight:
    flat = packed.quantise(torch.randn(prod(shape[:-1]), shape[-1], device=DEVICE), bits)
    return flat.with_rows(lambda part: part.view(*shape[:-1], -1))


def gelu(rows: Tensor) -> Tensor:
    return functional.gelu(rows, approximate="tanh")


def expected(hidden: Tensor, chosen: Tensor, router_weights: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """Row by row."""
    gate, up = torch.einsum("nd,nkfd->nkf", hidden, gate_up[chosen]).chunk(2, -1)
    return torch.einsum("nkf,nkdf,nk->nd", gelu(gate) * up, down[chosen], router_weights)


def choices(kind: str, rows: int, experts: int) -> Tensor:
    if kind == "one has all":
        return torch.tensor([[experts - 2]]).expand(rows, -1)
    used = experts if kind == "any" else 3
    return torch.rand(rows, used).topk(2).indices * (1 if kind == "any" else 2)


def check_experts(kind: str, rows: int, bits: int, widths: tuple[int, int] = (32, 64), experts: int = 7) -> None:
    torch.manual_seed(rows)
    inner, outer = widths
    hidden, chosen = torch.randn(rows, outer, device=DEVICE), choices(kind, rows, experts).to(DEVICE)
    router_weights = torch.rand(chosen.shape, device=DEVICE)
    shapes = (experts, 2 * inner, outer), (experts, outer, inner)
    if bits == 16:
        stored = plain = [torch.randn(shape, device=DEVICE).bfloat16() for shape in shapes]
    else:
        stored = [packed_randomly(shape, bits) for shape in shapes]  # type: ignore[misc]
        plain = [weight.weights(torch.float32) for weight in stored]  # type: ignore[call-overload]
    found = kernels.grouped_experts(hidden, chosen, router_weights, *stored, gelu)
    wanted = expected(hidden, chosen, router_weights, *(weight.float() for weight in plain))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-3)
    assert torch.equal(found, kernels.grouped_experts(hidden, chosen, router_weights, *stored, gelu))


@pytest.mark.parametrize("kind", ["any", "some are empty", "one has all"])
@pytest.mark.parametrize("rows", ROWS)
def test_experts_in_bfloat16_multiply_as_in_torch(kind: str, rows: int) -> None:
    check_experts(kind, rows, 16)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize(("kind", "rows"), [("any", 1), ("some are empty", 17), ("one has all", 300)])
def test_packed_experts_multiply_as_in_torch(kind: str, rows: int, bits: int) -> None:
    check_experts(kind, rows, bits)


@pytest.mark.parametrize("bits", [16, *BITS])
def test_widths_need_not_be_multiples_of_a_tile(bits: int) -> None:
    check_experts("any", 16, bits, (96, 160), experts=3)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize(("rows", "high", "wide"), [(1, 70, 1056), *((rows, 33, 96) for rows in ROWS)])
def test_a_packed_matrix_multiplies_as_in_torch(rows: int, high: int, wide: int, bits: int) -> None:
    torch.manual_seed(rows)
    weight, hidden = packed_randomly((high, wide), bits), torch.randn(rows, wide, device=DEVICE)
    wanted = functional.linear(hidden, weight.weights(torch.float32))
    torch.testing.assert_close(kernels.packed_product(hidden, weight), wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("bits", BITS)
def test_few_rows_are_rounded_and_something_added_at_once(bits: int) -> None:
    torch.manual_seed(0)
    weight, rows = packed_randomly((70, 1056), bits), torch.randn(20, 1056, device=DEVICE)
    for plus in (torch.randn(70, device=DEVICE), torch.randn(20, 70, device=DEVICE)):
        wanted = packed.packed_product(rows, weight, torch.bfloat16, plus)
        for count in (3, 20):
            added = plus[:count] if plus.ndim > 1 else plus
            found = kernels.packed_product(rows[:count], weight, torch.bfloat16, added)
            assert found.dtype == torch.float32
            torch.testing.assert_close(found, wanted[:count], rtol=0.02, atol=0.5)


@pytest.mark.parametrize(("count", "heads", "kv_heads", "size"), [(1, 7, 1, 64), (3, 4, 4, 24), (16, 6, 2, 32)])
def test_attention_sees_what_stands_before_each_row(count: int, heads: int, kv_heads: int, size: int) -> None:
    torch.manual_seed(0)
    queries = torch.randn(count, heads, size, device=DEVICE)
    keys, values = torch.randn(2, kv_heads, 200, size, device=DEVICE)
    shared = [each.repeat_interleave(heads // kv_heads, 0) for each in (keys, values)]
    for first in (0, 63, 150):
        positions = torch.arange(first, first + count, device=DEVICE)
        visible = torch.arange(200, device=DEVICE) <= positions[:, None]
        wanted = functional.scaled_dot_product_attention(queries.transpose(0, 1), *shared, attn_mask=visible)
        found = kernels.attention(queries, keys, values, positions)
        torch.testing.assert_close(found, wanted.transpose(0, 1).flatten(1), rtol=1e-4, atol=1e-4)


def test_whatever_is_chosen_has_its_blocks() -> None:
    """Of each expert alone, every pair once, and in as much memory whatever is chosen."""
    sizes = set()
    for kind in ("any", "some are empty"):
        chosen = choices(kind, 40, 7).to(DEVICE)
        pairs, owners, count, block = kernels.expert_blocks(chosen, 7)
        sizes.add((len(pairs), len(owners), block))
        blocks = pairs[: int(count) * block].view(-1, block)
        real = [row[row < chosen.numel()] for row in blocks]
        assert torch.cat(real).sort().values.tolist() == list(range(chosen.numel()))
        for row, owner in zip(real, owners.tolist(), strict=False):
            assert set(chosen.flatten()[row.long()].tolist()) == {owner}
    assert len(sizes) == 1


def in_float32(model: Any) -> Any:
    """So that no rounding decides which expert a row goes to."""
    for stack in (model.model.decoder, model.model.encoder.language_model):
        for path, layer in list(stack.named_modules()):
            if isinstance(layer, PackedLinear):
                stack.set_submodule(path, PackedLinear(layer.weight, torch.float32))
    return model.float()


def test_a_model_writes_the_same_by_kernels_packed_or_not(random_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(random_folder.parent / "cache"))
    segments = PinnedText("def f(x):\n    return "), Hole(max_tokens=6), PinnedText("\n")
    request = InfillRequest("1", segments, seed=1, max_steps=4)
    texts = []
    for kind in ("fall-back", "kernels", "unpacked", "kernels, unpacked"):
        adapter: Any = registry.load_model(str(random_folder), device=DEVICE, dtype="4bit")
        model = in_float32(adapter.network.model)
        if "unpacked" in kind:
            unpacked(model)
        adapter.network = DiffusionGemmaNetwork(model)
        if "kernels" in kind:
            assert devices.use_triton_kernels(model.modules()) == ""
        events = [event for event in Engine(adapter).infill(request) if isinstance(event, FilledHoles)]
        texts.append([event.texts for event in events])
    assert texts[0] != []
    assert texts.count(texts[0]) == len(texts)


@pytest.mark.skipif(DEVICE == "cuda", reason="the model is on the processor")
def test_a_model_that_fills_the_middle_writes_the_same(tmp_path: Path) -> None:
    file, _ = write_quantised(tmp_path / "model", "qwen2")
    family = built(file, "4bit", packs=True)
    network: Any = family.network
    network.layers = network.layers[:1]  # the interpreter is slow, and slowest for the large head, which stays in torch
    ids = family.fim_prompt("x", "y")[-12:]
    wanted = greedy(family, ids, 1)
    layer = network.layers[0]
    linears = [layer.queries_keys_values, layer.out, layer.gate_up, layer.down]
    parts = [part for linear in linears for part in getattr(linear, "parts", [linear])]
    assert devices.use_triton_kernels(parts) == ""
    assert network.layers[0].down.product is kernels.packed_product
    assert greedy(family, ids, 1) == wanted


def test_what_kernels_get_wrong_is_left_to_torch(caplog: pytest.LogCaptureFixture) -> None:
    """They take the rows of a matrix to lie one behind the other."""
    right, apart = (PackedLinear(packed_randomly((128, 64), 4)[::step]) for step in (1, 2))
    note = devices.use_triton_kernels([right, apart])
    assert "it is slower without kernels in Triton, which are not used: in products of 9 rows" in note in caplog.text
    assert right.product is packed.packed_product
    assert devices.use_triton_kernels([right]) == ""
    assert right.product is kernels.packed_product


def test_another_activation_is_left_to_torch() -> None:
    model = random_model().to(DEVICE)
    model.config.text_config.hidden_activation = "silu"
    assert "its activation is silu" in devices.use_triton_kernels(model.modules())


def run_compiled(code: str, **environment: str) -> str:
    """Outside of the interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TRITON_INTERPRET": "0", **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_without_a_compiler_it_says_what_to_install() -> None:
    code = "from inference.models import devices\nprint(devices.use_triton_kernels([]))"
    assert "Triton needs a C compiler, which is missing; install gcc" in run_compiled(code, PATH="/nowhere", CC="cc")


COMPILE = """
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from inference.models import triton_kernels as kernels

def used(kernel, pointers, numbers, stages=3, **sizes):
    types = {**pointers, **dict.fromkeys(numbers, "i32")}
    names = kernel.arg_names
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name, kind in pointers.items() if "*" in kind}
    signature = {name: types.get(name, "constexpr") for name in names}
    options = {"num_warps": kernels.WARPS, "num_stages": stages}
    source = ASTSource(kernel, signature, constexprs=sizes, attrs=aligned)
    print(compile(source, target=GPUTarget("cuda", 86, 32), options=options).metadata.shared)

half = dict.fromkeys(["scales", "biases"], "*fp16")
plan = dict.fromkeys(["pairs", "experts", "blocks"], "*i32")
experts = {**plan, **half, "rows": "*bf16", "output": "*bf16"}
tiles = {"N": kernels.BLOCK_COLUMNS // 2, "K": kernels.BLOCK_DEPTH}
used(kernels.sort_kernel, {**plan, "chosen": "*i64"}, "PE", M=64, BINS=256, STEP=1024)
gated = {"SHARE": 8, "O": 704, "I": 2816, "GATED": True, "M": 64, **tiles}
deep = {**gated, "BITS": 16, "K": 2 * kernels.BLOCK_DEPTH}
used(kernels.experts_kernel, {**experts, "weight": "*bf16", "router_weights": "*bf16"}, "P", 2, **deep)
used(kernels.experts_kernel, {**experts, "weight": "*i32", "router_weights": "*bf16"}, "P", BITS=5, **gated)
down = {"SHARE": 1, "O": 2816, "I": 704, "BITS": 4, "GATED": False, "M": 64, **tiles, "N": kernels.BLOCK_COLUMNS}
used(kernels.experts_kernel, {**experts, "weight": "*i32", "router_weights": "*fp32"}, "P", **down)
dense = {"O": 2816, "I": 2112, "BITS": 8, "M": 64, "N": kernels.DENSE_COLUMNS, "K": kernels.DENSE_DEPTH}
dense |= {"PLUS_ROW": 2816, "dtype": kernels.tl.bfloat16}
types = {**half, "rows": "*fp32", "words": "*i32", "plus": "*fp32", "output": "*fp32"}
used(kernels.dense_kernel, types, ["count", "split"], **dense)
heads = {"SHARING": 7, "D": 128, "R": 128, "DIMS": 128, "STEP": kernels.ATTENTION_STEP, "dtype": kernels.tl.bfloat16}
types = dict.fromkeys(["queries", "mixed", "scores_sums"], "*fp32") | {"keys": "*bf16", "values": "*bf16"}
used(kernels.attention_kernel, types | {"positions": "*i64", "scale": "fp32"}, ["count", "room"], **heads)
"""
SHARED_BYTES = 101_376
"""Of a program on an RTX 3090, 4090 or 5090."""


def test_kernels_compile_for_cards_with_little_shared_memory(tmp_path: Path) -> None:
    sizes = [int(line) for line in run_compiled(COMPILE, TRITON_CACHE_DIR=str(tmp_path)).split()]
    assert len(sizes) == 6
    assert max(sizes) <= SHARED_BYTES

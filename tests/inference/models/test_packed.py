"""The packed passes match transformers' own layers: up to rounding in float32, nearly in bfloat16."""

from typing import Any

import pytest
import torch
from torch import Tensor

from inference.models import registry
from inference.models.devices import native_bfloat16
from inference.models.diffusion_gemma import fast_passes
from inference.models.diffusion_gemma.continued_prefix import ContinuationCache, ScoringCache
from inference.models.diffusion_gemma.fused import FusedNetwork
from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.packed import PackedNetwork
from inference.models.diffusion_gemma.prefix_cache import EncodedPrefix, PrefixCache
from tests.inference.models.random_model import VOCABULARY_SIZE, WINDOW, random_model


def model_of_one_expert() -> Any:
    """With norms and scalars that are not one, so that each of them matters."""
    model = random_model(experts=1)
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if tensor.ndim == 1 and ("norm" in name or "scal" in name) and "vision" not in name:
                tensor.uniform_(0.5, 1.5)
    return model


@pytest.fixture(scope="module")
def network() -> Network:
    return Network(model_of_one_expert())


def ids(count: int, batch: int = 1) -> Tensor:
    return torch.randint(0, VOCABULARY_SIZE, (batch, count))


def encoded(network: Network, tokens: Tensor) -> EncodedPrefix:
    prefix = PrefixCache(network, 1 << 30).acquire([])
    if tokens.shape[1]:
        network.encode(tokens, prefix)
        prefix.commit(tokens[0].tolist())
    return prefix


@pytest.mark.parametrize("prefix", [0, 3 * WINDOW])
@pytest.mark.parametrize(("products", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.2)])
def test_a_canvas_equals_the_plain_one(network: Network, prefix: int, products: torch.dtype, tolerance: float) -> None:
    packed = PackedNetwork(network.model, products)
    for batch, width in [(1, 1), (1, 16), (3, 9)]:
        given, canvas = ids(prefix), ids(width, batch)
        view, of_packed = (encoded(each, given).view(batch) for each in (network, packed))
        valid = torch.arange(width)[None].expand(batch, -1) < torch.arange(width, width - batch, -1)[:, None]
        for soft in (None, torch.randn(batch, width, network.hidden_size)):
            for shown in (None, valid):
                wanted = network.decode(canvas, soft, view, shown)
                found = packed.decode(canvas, soft, of_packed, shown)
                keep = valid if shown is not None else torch.ones_like(valid)
                assert (found - wanted)[keep].norm() <= tolerance * wanted[keep].norm()


@pytest.mark.parametrize("past", [0, WINDOW - 1, 2 * WINDOW])
@pytest.mark.parametrize("new", [1, WINDOW + 5])
def test_a_prefix_is_encoded_as_by_the_plain_pass(network: Network, past: int, new: int) -> None:
    packed, before, after = PackedNetwork(network.model, torch.bfloat16), ids(past), ids(new)
    wanted, found = (each.encode(after, encoded(each, before)) for each in (network, packed))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("past", [0, 1, WINDOW - 8])
def test_continuations_encode_as_the_plain_pass(network: Network, past: int) -> None:
    """All at once, or a few tokens and then one by one, as copies of one another."""
    packed, before, whole = PackedNetwork(network.model, torch.bfloat16), ids(past), ids(7, batch=3)
    parents = torch.tensor([2, 2, 0])
    hidden = []
    for each in (network, packed):
        prefix = encoded(each, before).view()
        hidden.append([each.encode(whole, ScoringCache(prefix, each.rows))])
        growing = ContinuationCache(prefix, each.rows, 3, 7)
        for first, end in [(0, 4), (4, 5), (5, 6), (6, 7)]:
            hidden[-1].append(each.encode(whole[:, first:end], growing))
            growing.grow(end - first)
            growing.keep(parents)
    for wanted, found in zip(*hidden, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(hidden[1][1], hidden[1][0][:, :4], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("products", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.02)])
def test_fused_products_equal_the_plain_ones(network: Network, products: torch.dtype, tolerance: float) -> None:
    packed, hidden = PackedNetwork(network.model, products), torch.randn(5, network.hidden_size)
    logits = network.canvas_logits(hidden)
    assert (packed.canvas_logits(hidden) - logits).norm() <= tolerance * logits.norm()
    probabilities = logits.softmax(-1)
    expected = network.expected_embeddings(logits, probabilities)
    assert (packed.expected_embeddings(logits, probabilities) - expected).norm() <= tolerance * expected.norm()


def test_several_experts_are_left_to_the_layers_one_by_one() -> None:
    assert type(fast_passes.fastest(random_model())) is FusedNetwork
    assert type(fast_passes.fastest(model_of_one_expert())) is PackedNetwork


@pytest.mark.skipif(not native_bfloat16(), reason="this CPU does not multiply bfloat16 itself")
def test_less_precision_is_used_unless_the_user_names_one() -> None:
    for dtype, products in ((None, torch.bfloat16), ("float32", torch.float32)):
        family = registry.load("embedded", dtype=dtype)
        assert family.network.canvas_dtype == products
        assert family.dtype == "float32"

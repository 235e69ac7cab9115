"""The packed passes give what transformers' own layers give: to rounding in float32, nearly so in bfloat16.

Random weights are more sensitive to it than trained ones: on the embedded checkpoint the difference is 0.01 to 0.02.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

from inference.engine.engine import Engine
from inference.models.diffusion_gemma import packed
from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.packed import Packed
from inference.models.diffusion_gemma.prefix_cache import Lease, PrefixCache
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


def encoded(network: Network, tokens: Tensor) -> Lease:
    lease = PrefixCache(network, 1 << 30).acquire([])
    if tokens.shape[1]:
        network.encode_plainly(tokens, lease)
        lease.commit(tokens[0].tolist())
    return lease


@pytest.mark.parametrize("prefix", [0, 3, WINDOW, 3 * WINDOW])
@pytest.mark.parametrize(("products", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.2)])
def test_a_canvas_comes_out_as_from_the_plain_pass(
    network: Network, prefix: int, products: torch.dtype, tolerance: float
) -> None:
    passes = Packed(network, products)
    for batch, width in [(1, 1), (1, 16), (3, 9)]:
        view, canvas = encoded(network, ids(prefix)).view(batch), ids(width, batch)
        valid = torch.arange(width)[None].expand(batch, -1) < torch.arange(width, width - batch, -1)[:, None]
        for soft in (None, torch.randn(batch, width, network.hidden_size)):
            for shown in (None, valid):
                wanted = network.decode_plainly(canvas, soft, view, shown)
                found = passes.decode(canvas, soft, view, shown)
                keep = valid if shown is not None else torch.ones_like(valid)
                assert (found - wanted)[keep].norm() <= tolerance * wanted[keep].norm()


@pytest.mark.parametrize("past", [0, 5, WINDOW - 1, 2 * WINDOW])
@pytest.mark.parametrize("new", [1, 7, WINDOW + 5])
def test_a_prefix_is_encoded_as_by_the_plain_pass(network: Network, past: int, new: int) -> None:
    passes, before, after = Packed(network, torch.bfloat16), ids(past), ids(new)
    leases = [encoded(network, before) for _ in range(2)]
    wanted, found = network.encode_plainly(after, leases[0]), passes.encode(after, leases[1])
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    for lease in leases:
        lease.commit(after[0].tolist())
    for one, other in zip(leases[0].view().layers, leases[1].view().layers, strict=True):
        torch.testing.assert_close(one.keys, other.keys, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(one.values, other.values, rtol=1e-3, atol=1e-4)


def test_several_experts_are_left_to_the_plain_pass() -> None:
    network = Network(random_model())
    packed.take(network, exact=True)
    assert network.fast_decode is None
    assert network.fast_encode is None


def test_only_passes_that_agree_with_the_plain_ones_are_used() -> None:
    good, broken = Network(model_of_one_expert()), Network(model_of_one_expert())
    packed.take(good, exact=True)
    assert good.fast_decode is not None
    exact = broken.decode_plainly
    broken.decode_plainly = lambda *given: exact(*given) * 1.2  # type: ignore[method-assign]
    packed.take(broken, exact=True)
    assert broken.fast_decode is None


@pytest.mark.skipif(not packed.native_bfloat16(), reason="this CPU does not multiply bfloat16 itself")
def test_less_precision_is_used_unless_the_user_names_one() -> None:
    assert Engine.load("embedded").tools.network.half_head is not None
    assert Engine.load("embedded", dtype="float32").tools.network.half_head is None

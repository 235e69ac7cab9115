"""Shortcuts change the number of operations, not the result."""

import pytest
import torch

from inference.engine import Engine
from inference.models.diffusion_gemma import fused
from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.prefix_cache import PrefixCache


def predictions(network: Network) -> torch.Tensor:
    """(8, V) logits of a canvas behind a prefix, from both stacks."""
    ids = list(range(7, 47))
    lease = PrefixCache(network, 1 << 30).acquire(ids)
    network.encode(torch.tensor([ids]), lease)
    lease.commit(ids)
    return network.logits(network.decode(torch.arange(8)[None] + 9, None, lease.view())[0])


@pytest.mark.parametrize("name", ["embedded", "released"])
def test_predictions_equal_those_of_the_stock_modules(name: str, request: pytest.FixtureRequest) -> None:
    engine: Engine = request.getfixturevalue(name)
    network = engine.tools.network
    short = predictions(network)
    with fused.stock(network.model):
        assert not any("forward" in module.__dict__ for module in network.model.modules())
        long = predictions(network)
    torch.testing.assert_close(short, long, rtol=1e-4, atol=1e-4)
    assert any("forward" in module.__dict__ for module in network.model.modules())

"""Written-out layers change the number of operations, not the result."""

import pytest
import torch

from inference.engine import Engine
from inference.models.diffusion_gemma.fused import FusedNetwork
from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.prefix_cache import PrefixCache
from tests.inference.loaded import gemma


def predictions(network: Network, *, conditioned: bool) -> torch.Tensor:
    """(8, V) logits of a canvas behind a prefix, from both stacks."""
    ids = list(range(7, 47))
    prefix = PrefixCache(network, 1 << 30).acquire(ids)
    for _ in prefix.encode(ids):
        pass
    canvas = torch.arange(8)[None] + 9
    soft = network.token_embeddings(canvas.flip(1)) if conditioned else None
    return network.logits(network.decode(canvas, soft, prefix.view())[0])


@pytest.mark.parametrize("conditioned", [False, True], ids=["first step", "later step"])
@pytest.mark.parametrize("name", ["embedded", "released"])
def test_predictions_equal_those_of_the_stock_modules(
    name: str, request: pytest.FixtureRequest, conditioned: bool
) -> None:
    engine: Engine = request.getfixturevalue(name)
    model = gemma(engine).network.model
    short, long = (predictions(kind(model), conditioned=conditioned) for kind in (FusedNetwork, Network))
    torch.testing.assert_close(short, long, rtol=1e-4, atol=1e-4)


def test_the_model_stays_as_transformers_made_it(embedded: Engine, released: Engine) -> None:
    for engine in (embedded, released):
        assert not any("forward" in module.__dict__ for module in gemma(engine).network.model.modules())

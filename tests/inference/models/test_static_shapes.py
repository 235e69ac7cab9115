"""A pass in a fixed shape gives what the exact shape gives, whatever was in that shape before."""

import pytest
import torch

from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.prefix_cache import Lease, PrefixCache
from inference.models.diffusion_gemma.static_shapes import MAX_PROGRAMS, StaticShapes, verified
from tests.inference.models.random_model import VOCABULARY_SIZE, random_model


@pytest.fixture(scope="module")
def network() -> Network:
    return Network(random_model())


def encoded(network: Network, count: int) -> Lease:
    ids = torch.randint(0, VOCABULARY_SIZE, (count,), generator=torch.Generator().manual_seed(count)).tolist()
    lease = PrefixCache(network, 1 << 30).acquire(ids)
    if ids:
        network.encode(torch.tensor([ids]), lease)
        lease.commit(ids)
    return lease


def check(network: Network, shapes: StaticShapes, prefix: int, batch: int, width: int, *, padded: bool = False) -> None:
    """One step without and one with a self-conditioning signal."""
    view = encoded(network, prefix).view(batch)
    canvas = torch.randint(0, VOCABULARY_SIZE, (batch, width))
    valid = torch.arange(width)[None].expand(batch, -1) < torch.arange(width, width - batch, -1)[:, None]
    given = valid if padded else None
    for soft in (None, torch.randn(batch, width, network.hidden_size)):
        wanted = network.decode_plainly(canvas, soft, view, given)
        found = shapes.decode(canvas, soft, view, given)
        assert found.shape == wanted.shape
        keep = valid if padded else torch.ones_like(valid)
        torch.testing.assert_close(found[keep], wanted[keep], rtol=1e-4, atol=1e-4)


def test_any_shape_gives_what_the_plain_pass_gives(network: Network) -> None:
    shapes = StaticShapes(network, record=False)
    for prefix, batch, width in [(0, 1, 5), (10, 1, 32), (10, 3, 33), (300, 2, 16), (255, 1, 31), (256, 1, 64)]:
        check(network, shapes, prefix, batch, width)
        check(network, shapes, prefix, batch, width, padded=True)


def test_nothing_of_an_earlier_prefix_or_canvas_shows_through(network: Network) -> None:
    shapes = StaticShapes(network, record=False)
    for prefix, width in [(200, 32), (20, 8), (150, 30), (3, 1), (0, 32)]:
        check(network, shapes, prefix, 2, width)


def test_shapes_that_are_long_unused_are_forgotten(network: Network) -> None:
    shapes = StaticShapes(network, record=False)
    for batch in range(1, MAX_PROGRAMS + 4):
        check(network, shapes, 4, batch, 4)
    assert len(shapes._programs) == MAX_PROGRAMS
    check(network, shapes, 300, 1, 4)
    assert set(shapes._rows) == {shape[2] for shape in shapes._programs}


def test_only_what_agrees_with_the_plain_pass_is_used(network: Network) -> None:
    assert verified(network) is not None
    broken = Network(random_model(seed=1))
    exact = broken.decode_rows
    broken.decode_rows = lambda *given: exact(*given) + (given[1] is not None)  # type: ignore[method-assign]
    assert verified(broken) is None

"""A pass in a fixed shape gives what the exact shape gives, whatever was in that shape before."""

import pytest
import torch

from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.prefix_cache import EncodedPrefix, PrefixCache
from inference.models.diffusion_gemma.static_shapes import MAX_PROGRAMS, AsItIs, Pass, RecordedNetwork
from tests.inference.models.random_model import VOCABULARY_SIZE, random_model


@pytest.fixture(scope="module")
def network() -> Network:
    return Network(random_model())


def encoded(network: Network, count: int) -> EncodedPrefix:
    ids = torch.randint(0, VOCABULARY_SIZE, (count,), generator=torch.Generator().manual_seed(count)).tolist()
    read = PrefixCache(network, 1 << 30).acquire(ids)
    if ids:
        network.encode(torch.tensor([ids]), read)
        read.commit(ids)
    return read


def check(
    network: Network, shapes: RecordedNetwork, prefix: int, batch: int, width: int, *, padded: bool = False
) -> None:
    """One step without and one with a self-conditioning signal."""
    view = encoded(network, prefix).view(batch)
    canvas = torch.randint(0, VOCABULARY_SIZE, (batch, width))
    valid = torch.arange(width)[None].expand(batch, -1) < torch.arange(width, width - batch, -1)[:, None]
    given = valid if padded else None
    for soft in (None, torch.randn(batch, width, network.hidden_size)):
        wanted = network.decode(canvas, soft, view, given)
        found = shapes.decode(canvas, soft, view, given)
        assert found.shape == wanted.shape
        keep = valid if padded else torch.ones_like(valid)
        torch.testing.assert_close(found[keep], wanted[keep], rtol=1e-4, atol=1e-4)


def test_any_shape_gives_what_the_plain_pass_gives(network: Network) -> None:
    shapes = RecordedNetwork(network.model, AsItIs())
    for prefix, batch, width in [(0, 1, 5), (10, 1, 32), (10, 3, 33), (300, 2, 16), (255, 1, 31), (256, 1, 64)]:
        check(network, shapes, prefix, batch, width)
        check(network, shapes, prefix, batch, width, padded=True)


def test_nothing_of_an_earlier_prefix_or_canvas_shows_through(network: Network) -> None:
    shapes = RecordedNetwork(network.model, AsItIs())
    for prefix, width in [(200, 32), (20, 8), (150, 30), (3, 1), (0, 32)]:
        check(network, shapes, prefix, 2, width)


def test_shapes_that_are_long_unused_are_forgotten(network: Network) -> None:
    shapes = RecordedNetwork(network.model, AsItIs())
    for batch in range(1, MAX_PROGRAMS + 4):
        check(network, shapes, 4, batch, 4)
    assert len(shapes.shapes) == MAX_PROGRAMS
    check(network, shapes, 300, 1, 4)
    assert len(shapes.shapes) == MAX_PROGRAMS
    assert shapes.shapes[-1] == (1, 32, 512)
    assert shapes.shapes[0][0] > 2, "the first two shapes are forgotten"


def test_prefix_buffers_that_no_kept_shape_uses_are_dropped(network: Network) -> None:
    shapes = RecordedNetwork(network.model, AsItIs())
    check(network, shapes, 4, 1, 4)
    for batch in range(1, MAX_PROGRAMS):
        check(network, shapes, 300, batch, 4)
    assert list(shapes.prefix_sizes) == [256, 512]
    check(network, shapes, 300, MAX_PROGRAMS, 4)
    assert list(shapes.prefix_sizes) == [512]
    assert {rows for _, _, rows in shapes.shapes} == set(shapes.prefix_sizes)


def test_a_step_in_a_known_shape_takes_no_new_memory_for_the_prefix(network: Network) -> None:
    shapes, view = RecordedNetwork(network.model, AsItIs()), encoded(network, 600).view()
    canvas = torch.randint(0, VOCABULARY_SIZE, (1, 8))
    shapes.decode(canvas, None, view)
    with torch.profiler.profile() as profile:
        shapes.decode(canvas, None, view)
    assert "aten::new_zeros" not in {event.key for event in profile.key_averages()}


class OneBuffer:
    """Records as a GPU does with shared memory: what a replay returns is overwritten by the next one of any shape."""

    def __init__(self) -> None:
        self.recorded: list[Pass] = []
        self.memory = torch.empty(0)

    def record(self, run: Pass) -> Pass:
        def replay() -> torch.Tensor:
            result = run()
            if self.memory.numel() < result.numel():
                self.memory = result.new_empty(result.numel())
            shared = self.memory[: result.numel()].view_as(result)
            return shared.copy_(result)

        self.recorded.append(replay)
        return replay


def test_all_shapes_are_recorded_once_by_one_recorder_and_may_share_memory(network: Network) -> None:
    recorder = OneBuffer()
    shapes = RecordedNetwork(network.model, recorder)
    view, canvases = encoded(network, 20).view(), [torch.full((1, width), 7) for width in (40, 8, 70)]
    found = [shapes.decode(canvas, None, view) for canvas in canvases for _ in range(2)]
    assert len(recorder.recorded) == len(shapes.shapes) == len(canvases)
    for number, hidden in enumerate(found):
        wanted = network.decode(canvases[number // 2], None, view)
        torch.testing.assert_close(hidden, wanted, rtol=1e-4, atol=1e-4)

"""A pass in a fixed shape equals that of the exact shape, whatever its earlier contents, and no request records it.

A replay is used only if it gives what its pass gives. No pass copies for each head the keys and values that heads
share. A GPU's replay is not tested here: `AsItIs` runs the pass that would be recorded.
"""

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from inference.engine.engine import Engine, warm_up_requests
from inference.messages import PinnedText
from inference.models import registry
from inference.models.cuda_graphs import CudaGraphCapturer, Pass
from inference.models.diffusion_gemma.cuda_graphs import MAX_SHAPES, CudaGraphNetwork
from inference.models.diffusion_gemma.encoded_prefix import EncodedPrefix, new_prefix_cache
from inference.models.diffusion_gemma.network import DiffusionGemmaNetwork
from tests.inference.loaded import gemma
from tests.inference.models.random_model import VOCABULARY_SIZE, AsItIs, save_random_checkpoint
from tests.inference.models.test_prefix_cache import encoded as encoded_in
from tests.inference.models.test_prefix_cache import tokens

USUAL = [0, 256, 512, 1_024]
"""The sizes of prefixes that this small model can have of those that are recorded ahead."""


def encoded(network: DiffusionGemmaNetwork, count: int) -> EncodedPrefix:
    return encoded_in(network, new_prefix_cache(network, 1 << 30), tokens(count, seed=count))


def check(
    network: DiffusionGemmaNetwork,
    shapes: CudaGraphNetwork,
    prefix: int,
    batch: int,
    width: int,
    *,
    padded: bool = False,
) -> None:
    """One step without and one with a self-conditioning signal, each before and after the shape is recorded."""
    view = encoded(network, prefix).view()
    canvas = torch.randint(0, VOCABULARY_SIZE, (batch, width))
    valid = torch.arange(width)[None].expand(batch, -1) < torch.arange(width, width - batch, -1)[:, None]
    given = valid if padded else None
    for soft in (None, torch.randn(batch, width, network.hidden_size)):
        wanted = network.decode(canvas, soft, view, given)
        keep = valid if padded else torch.ones_like(valid)
        for found in (shapes.decode(canvas, soft, view, given), prepared(shapes).decode(canvas, soft, view, given)):
            assert found.shape == wanted.shape
            torch.testing.assert_close(found[keep], wanted[keep], rtol=1e-4, atol=1e-4)


def prepared(shapes: CudaGraphNetwork) -> CudaGraphNetwork:
    while shapes.run_idle_task():
        pass
    return shapes


def test_any_shape_gives_what_the_plain_pass_gives(network: DiffusionGemmaNetwork) -> None:
    shapes = CudaGraphNetwork(network.model, AsItIs())
    for prefix, batch, width in [(0, 1, 5), (10, 1, 32), (10, 3, 33), (300, 2, 16), (255, 1, 31), (256, 1, 64)]:
        check(network, shapes, prefix, batch, width)
        check(network, shapes, prefix, batch, width, padded=True)


def test_shapes_that_are_long_unused_are_forgotten(network: DiffusionGemmaNetwork) -> None:
    shapes = CudaGraphNetwork(network.model, AsItIs())
    for batch in range(1, MAX_SHAPES // len(USUAL) + 3):
        check(network, shapes, 4, batch, 4)
    assert len(shapes.captured_shapes) == MAX_SHAPES
    check(network, shapes, 300, 1, 4)
    assert len(shapes.captured_shapes) == MAX_SHAPES
    assert shapes.captured_shapes[-1] == (1, 32, 512)
    assert 2 not in {batch for batch, _, _ in shapes.captured_shapes}, "as 1 was, before it was used again"


class SoonFull(AsItIs):
    def __init__(self) -> None:
        self.asked = 0

    def capture(self, run: Pass) -> Pass:
        self.asked += 1
        if self.asked > 2:
            raise RuntimeError("CUDA out of memory while capturing")
        return run


def test_users_are_told_of_a_failed_capture(
    engine: Engine, network: DiffusionGemmaNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = SoonFull()
    gemma(engine).network = shapes = CudaGraphNetwork(network.model, recorder)
    for width in (4, 40, 70, 100, 4, 40):
        check(network, shapes, 20, 1, width)
    assert recorder.asked == 3
    assert shapes.captured_shapes == ()
    assert caplog.text.count("out of memory while capturing") == 1
    engine.run_idle_task()
    assert "without passes as CUDA graphs, which are not used: CUDA out of memory while capturing" in engine.note


class OneBuffer(CudaGraphCapturer):
    """Records as a GPU does with shared memory: what a replay returns is overwritten by the next one of any shape."""

    def __init__(self) -> None:
        self.recorded: list[Pass] = []
        self.memory = torch.empty(0)
        self.replays = 0

    def capture(self, run: Pass) -> Pass:
        def replay() -> torch.Tensor:
            result = run()
            self.replays += 1
            if self.memory.numel() < result.numel():
                self.memory = result.new_empty(result.numel())
            return self.memory[: result.numel()].view_as(result).copy_(result)

        self.recorded.append(replay)
        return replay


@pytest.mark.parametrize("past", [0, 9, 255, 256, 300])
def test_a_few_new_tokens_are_read_by_a_replay(network: DiffusionGemmaNetwork, past: int) -> None:
    """With the same rows behind it, which the next tokens and a canvas see."""
    recorder = OneBuffer()
    shapes = CudaGraphNetwork(network.model, recorder)
    shapes.decode(torch.full((1, 8), 7), None, encoded(network, past).view())
    prepared(shapes)
    recorder.replays = 0
    found, wanted = encoded(network, past), encoded(network, past)
    for count in (1, 3, 4, 5, 32, 33):
        ids = torch.randint(0, VOCABULARY_SIZE, (1, count))
        hidden = [shapes.encode(ids, found), network.encode(ids, wanted)]
        torch.testing.assert_close(*hidden, rtol=1e-4, atol=1e-4)
        for prefix in (found, wanted):
            prefix.commit(ids[0].tolist())
    assert recorder.replays == 5
    for ours, theirs in zip(found.view().layers, wanted.view().layers, strict=True):
        torch.testing.assert_close(ours.keys, theirs.keys, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(ours.values, theirs.values, rtol=1e-4, atol=1e-4)


@pytest.fixture
def recorder() -> OneBuffer:
    return OneBuffer()


@pytest.fixture
def engine(tmp_path: Path, recorder: OneBuffer) -> Engine:
    """A small model whose passes are recorded as on a GPU, where rows are free."""
    save_random_checkpoint(tmp_path, canvas_tokens=64)
    family: Any = registry.load_model(str(tmp_path), device="cpu", dtype="float32")
    family.network = CudaGraphNetwork(family.network.model, recorder)
    family.prefixes = new_prefix_cache(family.network, 64 << 20)
    family.traits = dataclasses.replace(family.traits, free_rows=512)
    return Engine(family)


def test_after_the_warm_up_usual_requests_record_nothing(engine: Engine, recorder: OneBuffer) -> None:
    engine.warm_up()
    recorded = len(recorder.recorded)
    assert recorded > len(USUAL)
    for lines in (0, 60):  # a token for each byte: longer ones are no usual prefixes
        before = PinnedText("value = 1\n" * lines + "    x = ")
        for request in warm_up_requests():
            segments = (before, *request.segments[1:])
            assert list(engine.infill(msgspec.structs.replace(request, segments=segments, seed=lines)))
    assert not engine.run_idle_task(), "there was a shape that had not been recorded"
    assert len(recorder.recorded) == recorded


class Stale(AsItIs):
    """Records as a GPU does whose pass has an input that is not at a fixed address."""

    def capture(self, run: Pass) -> Pass:
        result = run()
        return lambda: result


def test_a_replay_that_differs_is_not_used(network: DiffusionGemmaNetwork) -> None:
    shapes = CudaGraphNetwork(network.model, Stale())
    check(network, shapes, 20, 1, 40)
    assert shapes.captured_shapes == ()
    assert "a replay differs by" in shapes.note

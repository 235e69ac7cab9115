"""With nothing pinned and full canvases, our loop gives exactly the tokens of transformers' `generate`."""

from typing import Any

import pytest
import torch

from inference.engine.canvas.batch import Canvas
from inference.engine.canvas.layout import OPEN, Row
from inference.engine.search.denoise import Denoising, NoiseSource
from inference.models.checkpoint import SamplerProperties
from inference.models.diffusion_gemma import fused
from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.prefix_cache import PrefixCache
from tests.inference.models.random_model import CANVAS_TOKENS, VOCABULARY_SIZE, WINDOW, random_model

CANVASES = 2
PREFIX_TOKENS = WINDOW + 2 * CANVAS_TOKENS + 5


@pytest.fixture(scope="module", params=["stock", "shortcuts"])
def model(request: pytest.FixtureRequest) -> Any:
    """As transformers made it, and with the shortcuts the product takes."""
    model = random_model()
    if request.param == "shortcuts":
        fused.take(model)
    return model


def prompt(seed: int) -> torch.Tensor:
    return torch.randint(0, VOCABULARY_SIZE, (1, PREFIX_TOKENS), generator=torch.Generator().manual_seed(seed))


def ours(model: Any, ids: list[int], settings: SamplerProperties, seed: int) -> tuple[list[int], int]:
    """The tokens of our loop over several canvases, each encoded into the prefix of the next, and the steps taken."""
    network = Network(model)
    lease = PrefixCache(network, budget_bytes=1 << 30).acquire(ids)
    source = NoiseSource(None, torch.Generator(network.device).manual_seed(seed))
    pending, written, steps = ids, [], 0
    for _ in range(CANVASES):
        network.encode(torch.tensor([pending], device=network.device), lease)
        lease.commit(pending)
        open_rows = Row((OPEN,) * CANVAS_TOKENS, ((0, 0, CANVAS_TOKENS),))
        loop = Denoising(network, lease.view(), Canvas.of([open_rows], network.device), settings, source)
        while not loop.finished:
            loop.step()
        pending, steps = loop.answer[0].tolist(), steps + loop.step_number
        written += pending
    return written, steps


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("bound", "confidence", "stability"),
    [(0.1, 0.005, 1), (4.0, 0.5, 1), (1.0, 2.0, 2), (0.5, 10.0, 0)],
)
def test_tokens_equal_those_of_generate(model: Any, seed: int, bound: float, confidence: float, stability: int) -> None:
    """Same weights, settings and random stream: same tokens, over two canvases behind a prefix beyond the window."""
    from transformers.models.diffusion_gemma.generation_diffusion_gemma import (
        DiffusionGemmaGenerationConfig,
        EntropyBoundSamplerConfig,
    )

    ids = prompt(seed)
    config = DiffusionGemmaGenerationConfig(
        max_new_tokens=CANVASES * CANVAS_TOKENS,
        max_denoising_steps=12,
        sampler_config=EntropyBoundSamplerConfig(entropy_bound=bound),
        t_min=0.4,
        t_max=0.8,
        stability_threshold=stability,
        confidence_threshold=confidence,
    )
    stock = random_model()
    torch.manual_seed(seed)
    theirs = stock.generate(ids, generation_config=config)
    settings = SamplerProperties(12, bound, 0.8, 0.4, stability, confidence)
    tokens, steps = ours(model, ids[0].tolist(), settings, seed)
    assert tokens == theirs.sequences[0, PREFIX_TOKENS:].tolist()
    assert steps == round(len(tokens) / theirs.tokens_per_forward.item())


def test_a_pinned_token_that_changes_is_found_out(model: Any) -> None:
    network = Network(model)
    lease = PrefixCache(network, budget_bytes=1 << 30).acquire([])
    canvas = Canvas.of([Row((5, OPEN, OPEN, 6), ((1, 1, 3),))], network.device)
    loop = Denoising(network, lease.view(), canvas, SamplerProperties(4), NoiseSource(None, torch.Generator()))
    loop.step()
    canvas.pinned[0, 3] = 7
    with pytest.raises(AssertionError, match="pinned"):
        loop.step()

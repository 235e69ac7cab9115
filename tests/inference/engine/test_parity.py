"""The search gives the tokens of transformers' `generate`, or, with pins, of a plain loop of transformers' parts."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import torch
from transformers.models.diffusion_gemma import generation_diffusion_gemma as published
from transformers.models.diffusion_gemma.generation_diffusion_gemma import (
    EntropyBoundSampler,
    EntropyBoundSamplerConfig,
)

from inference.engine.canvas.batch import CanvasBatch
from inference.engine.canvas.layout import OPEN_ID, ComposedCanvas
from inference.engine.denoising.denoise import Denoiser, NoiseSource
from inference.engine.engine import Engine
from inference.messages import FilledHoles, Hole, InfillRequest, PinnedText
from inference.models.diffusion_gemma.adapter import EncodedPrefixHandle
from inference.models.diffusion_gemma.encoded_prefix import EncodedKeysValues, new_prefix_cache
from inference.models.diffusion_gemma.network import DiffusionGemmaNetwork
from inference.models.infill_config import SamplerSettings
from inference.models.prefix_cache import PrefixCache
from tests.inference.engine.filling import Answer, fill
from tests.inference.loaded import gemma, planned, using
from tests.inference.models.random_model import CANVAS_TOKENS, VOCABULARY_SIZE, WINDOW, random_model

CANVASES = 2
PREFIX_TOKENS = WINDOW + 2 * CANVAS_TOKENS + 5
STEPS = 12
OPEN_ROW = ComposedCanvas((OPEN_ID,) * CANVAS_TOKENS, ((0, 0, CANVAS_TOKENS),))
STOPPING = [(0.1, 0.005, 1), (4.0, 0.5, 1), (1.0, 2.0, 2), (0.5, 10.0, 0)]
"""Entropy bound, confidence and stability."""


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=str)
def network(request: pytest.FixtureRequest) -> DiffusionGemmaNetwork:
    return DiffusionGemmaNetwork(random_model().to(request.param))


def prompt(seed: int) -> torch.Tensor:
    return torch.randint(0, VOCABULARY_SIZE, (1, PREFIX_TOKENS), generator=torch.Generator().manual_seed(seed))


def denoised(
    network: DiffusionGemmaNetwork,
    cache: PrefixCache[EncodedKeysValues],
    ids: Sequence[int],
    rows: Sequence[ComposedCanvas],
    settings: SamplerSettings,
    noise: Any,
) -> Denoiser:
    context = EncodedPrefixHandle(network, cache, ids)
    for _ in context.prefill():
        pass
    loop = Denoiser(context, CanvasBatch.from_canvases(rows, network.device), settings, noise)
    while not loop.is_finished:
        loop.step()
    context.close()
    return loop


def noise(network: DiffusionGemmaNetwork, seed: int) -> NoiseSource:
    return NoiseSource(network.vocabulary_size, torch.Generator(network.device).manual_seed(seed))


def ours(network: DiffusionGemmaNetwork, ids: list[int], settings: SamplerSettings, seed: int) -> tuple[list[int], int]:
    """The tokens of our loop over several canvases, each encoded into the prefix of the next, and the steps taken."""
    cache, stream = new_prefix_cache(network, 1 << 30), noise(network, seed)
    prefix, steps = list(ids), 0
    for _ in range(CANVASES):
        loop = denoised(network, cache, prefix, [OPEN_ROW], settings, stream)
        prefix, steps = prefix + loop.prediction_ids[0].tolist(), steps + loop.step_number
    return prefix[len(ids) :], steps


def generated(model: Any, ids: torch.Tensor, seed: int, settings: SamplerSettings, canvases: int) -> Any:
    config = published.DiffusionGemmaGenerationConfig(
        max_new_tokens=canvases * CANVAS_TOKENS,
        max_denoising_steps=settings.max_steps,
        sampler_config=EntropyBoundSamplerConfig(entropy_bound=settings.entropy_bound),
        t_min=settings.t_min,
        t_max=settings.t_max,
        stability_threshold=settings.stability,
        confidence_threshold=settings.confidence,
    )
    torch.manual_seed(seed)
    return model.generate(ids, generation_config=config)


@torch.inference_mode()
def by_hand(
    model: Any,
    prefix: Sequence[int],
    row: ComposedCanvas,
    settings: SamplerSettings,
    seed: int,
    bias: torch.Tensor | None = None,
) -> tuple[list[int], int]:
    """The tokens of a canvas with pins, and the steps taken; `bias` (holes, V) is added to the logits of its holes."""
    given, prefix_ids = torch.tensor([row.ids]), torch.tensor([list(prefix)])
    holes = given == OPEN_ID
    bound = EntropyBoundSamplerConfig(settings.entropy_bound)
    sampler = EntropyBoundSampler(bound, int(holes.sum()), VOCABULARY_SIZE, settings.max_steps)
    cooler = published.LinearTemperatureScheduleLogitsProcessor(settings.t_min, settings.t_max, settings.max_steps)
    stopping = published.StableAndConfidentStoppingCriteria(settings.stability, settings.confidence)
    torch.manual_seed(seed)
    canvas, conditioning = sampler.initialize_canvas(1, torch.device("cpu")), None
    for step in range(settings.max_steps):
        shown = given.masked_scatter(holes, canvas)
        raw = model(input_ids=prefix_ids, decoder_input_ids=shown, self_conditioning_logits=conditioning).logits
        left = torch.tensor(settings.max_steps - step, dtype=torch.int32)
        logits = cooler(None, raw[holes] if bias is None else raw[holes] + bias, cur_step=left)
        drawn = torch.multinomial(logits.softmax(-1), 1).T
        canvas = sampler.renoise_canvas(sampler.accept_canvas(canvas, drawn, logits[None], left), left)
        certain = torch.nn.functional.one_hot(shown, VOCABULARY_SIZE).log().clamp(min=-1e4)
        conditioning = certain.masked_scatter(holes[..., None], logits.to(certain.dtype)).to(model.dtype)
        if bool(stopping(logits.argmax(-1)[None], logits[None]).all()):
            break
    answer = given.masked_scatter(holes, logits.argmax(-1)[None])
    return answer[0].tolist(), step + 1


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("bound", "confidence", "stability"), STOPPING)
def test_tokens_equal_generate(
    network: DiffusionGemmaNetwork, seed: int, bound: float, confidence: float, stability: int
) -> None:
    """Same weights, settings and random stream: same tokens, over two canvases behind a prefix beyond the window."""
    ids, settings = prompt(seed), SamplerSettings(STEPS, bound, 0.8, 0.4, stability, confidence)
    theirs = generated(network.model, ids, seed, settings, CANVASES)
    tokens, steps = ours(network, ids[0].tolist(), settings, seed)
    assert tokens == theirs.sequences[0, PREFIX_TOKENS:].tolist()
    assert steps == round(len(tokens) / theirs.tokens_per_forward.item())


@pytest.mark.parametrize(("bound", "confidence", "stability"), STOPPING)
def test_a_batch_equals_that_of_generate(
    network: DiffusionGemmaNetwork, bound: float, confidence: float, stability: int
) -> None:
    ids, settings = prompt(3), SamplerSettings(STEPS, bound, 0.8, 0.4, stability, confidence)
    theirs = generated(network.model, ids.expand(3, -1), 3, settings, 1)
    loop = denoised(network, new_prefix_cache(network, 0), ids[0].tolist(), [OPEN_ROW] * 3, settings, noise(network, 3))
    assert loop.prediction_ids.tolist() == theirs.sequences[:, PREFIX_TOKENS:].tolist()
    assert loop.steps.tolist() == [round(CANVAS_TOKENS / each) for each in theirs.tokens_per_forward.tolist()]


PINNED = [
    OPEN_ROW,
    ComposedCanvas((OPEN_ID,) * 6 + (7, 8, 9), ((0, 0, 6),)),
    ComposedCanvas((11, 12, *(OPEN_ID,) * 5, 13, *(OPEN_ID,) * 3, 14, 15, 16), ((2, 2, 7), (8, 8, 11))),
    ComposedCanvas((OPEN_ID, 5, OPEN_ID, 6, OPEN_ID, 7), ((0, 0, 1), (2, 2, 3), (4, 4, 5))),
]


@pytest.mark.parametrize("index", range(len(PINNED)), ids=["no pins", "suffix", "two holes", "three of one token"])
@pytest.mark.parametrize("prefix", [PREFIX_TOKENS, 3], ids=["long prefix", "short prefix"])
def test_pinned_canvases_equal_those_of_the_plain_loop(network: DiffusionGemmaNetwork, index: int, prefix: int) -> None:
    """Pinned tokens condition every step, in the canvas and as what the model said of those rows before."""
    ids, settings = prompt(2)[0, :prefix].tolist(), SamplerSettings(STEPS, 1.0, 0.8, 0.4, 1, 0.05)
    tokens, steps = by_hand(network.model, ids, PINNED[index], settings, 2)
    loop = denoised(network, new_prefix_cache(network, 0), ids, [PINNED[index]], settings, noise(network, 2))
    assert loop.prediction_ids[0].tolist() == tokens
    assert loop.step_number == steps


@pytest.mark.parametrize("seed", range(2))
def test_a_request_in_the_middle_of_a_word_equals_the_plain_loop(released: Engine, seed: int) -> None:
    """All the way from text to text: the hole begins and ends inside a word, and its first token is healed."""
    segments = (
        PinnedText("def area(wid"),
        Hole(min_tokens=9, max_tokens=9, single_line=True),
        PinnedText("asure(x)\n"),
    )
    request = InfillRequest("r", segments, seed=seed, max_steps=STEPS)
    model, settings, plan = released.loaded, released.loaded.infill_config.sampler, planned(released, *segments)
    row = plan.compose([9])
    constraint = model.constraint_builder.build(CanvasBatch.from_canvases([row], model.adapter.device), plan.holes)
    rest = (settings.entropy_bound, settings.t_max, settings.t_min, settings.stability, settings.confidence)
    limited = SamplerSettings(STEPS, *rest)
    bias = constraint.biases[constraint.bias_index]
    tokens, steps = by_hand(gemma(released).network.model, plan.prefix_ids, row, limited, seed, bias)
    ((first, _, end),) = row.spans
    plain, family = using(released, sampler=limited), gemma(released)
    kept, family.prefixes = (
        family.prefixes,
        new_prefix_cache(family.network, 0),
    )  # rows read among others round otherwise
    try:
        (candidate,) = (event for event in plain.infill(request) if isinstance(event, FilledHoles))
    finally:
        family.prefixes = kept
    written = model.vocabulary.bytes_of(tokens[first:end])
    assert written.startswith(b"d"), "the token that was healed"
    assert candidate.texts[0] == written[1:].decode(errors="replace")
    assert candidate.steps == steps


NEVER_SURE = SamplerSettings(max_steps=20, entropy_bound=1.0, stability=1, confidence=0.0)
PARTS = (
    PinnedText("import os\n\n\ndef size(path):\n    ret"),
    Hole(min_tokens=4, max_tokens=4),
    PinnedText("\n\n\nx = 1\n"),
)


def filled(engine: Engine, settings: SamplerSettings) -> Answer:
    other = using(engine, sampler=settings, line_steps=None)
    return fill(other, *PARTS, drafts=True, seed=1)


def test_a_canvas_is_done_when_its_answer_stands_still(twin: Engine) -> None:
    run = filled(twin, msgspec.structs.replace(NEVER_SURE, still_steps=2))
    every = [draft.texts[0] for draft in filled(twin, NEVER_SURE).drafts]
    still = next(at for at in range(2, len(every)) if every[at - 2] == every[at - 1] == every[at])
    assert run.candidates[0].steps == still + 1 < NEVER_SURE.max_steps
    assert run.drafts[still].texts[0] == every[still]


def test_a_canvas_is_done_when_little_entropy_is_left_in_all(twin: Engine) -> None:
    """The sum over a line's few rows; of their mean the published rule asks the same as over a whole canvas."""
    assert filled(twin, msgspec.structs.replace(NEVER_SURE, stability=0, total_entropy=1e6)).candidates[0].steps == 1


def test_a_line_takes_fewer_steps_where_the_checkpoint_says_so(twin: Engine) -> None:
    limited = using(twin, sampler=NEVER_SURE, line_steps=3)
    (text, _, rest), steps = PARTS, []
    for single_line in (True, False):
        hole = Hole(min_tokens=4, max_tokens=4, single_line=single_line)
        steps += [one.steps for one in fill(limited, text, hole, rest, seed=1).candidates]
    assert steps == [3, NEVER_SURE.max_steps]

"""Test access to a loaded model beyond the engine's: its network, its cache, and prefixes read in one go."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from inference.engine import Engine
from inference.messages import Candidate, Draft, Hole, InfillRequest, Text
from inference.models.diffusion_gemma.adapter import DiffusionGemma, EncodedContext
from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.prefix_cache import PrefixCache

TWIN = Path(__file__).parents[1] / "data" / "twin"


def gemma(engine: Engine) -> DiffusionGemma:
    """The model of an engine that runs on this family."""
    assert isinstance(engine.loaded.family, DiffusionGemma)
    return engine.loaded.family


@contextmanager
def opened(engine: Engine, prefix_ids: Sequence[int]) -> Iterator[EncodedContext]:
    """A prefix, encoded."""
    context = gemma(engine).open(prefix_ids)
    for _ in context.encode():
        pass
    yield context
    context.close()


def causal_logits(network: Network, ids: Sequence[int]) -> torch.Tensor:
    """(n, V) logits of the token after each of `ids`, from one fresh pass over everything."""
    fresh = PrefixCache(network, 0).acquire([])
    return network.logits(network.encode(torch.tensor([list(ids)], device=network.device), fresh)[0])


def check_nothing_is_open(engine: Engine) -> None:
    """Once no request runs nobody reads a prefix, and the cache's bookkeeping agrees with its buffers."""
    gemma(engine).prefixes.check_integrity()
    assert gemma(engine).prefixes.readers == 0


def save_with_broken_encoder(folder: Path) -> None:
    """The twin, its encoder's layers scaled wrongly. What only the decoder uses is as it was."""
    shutil.copytree(TWIN, folder)
    weights = load_file(folder / "model.safetensors")
    scalars = [name for name in weights if "encoder" in name and name.endswith("layer_scalar")]
    weights |= {name: weights[name] * 0.5 for name in scalars}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def check_typed_text_is_pinned(engine: Engine) -> None:
    """What is typed at the first draft stands at the start of every candidate."""
    request = InfillRequest("r", (Text("abc"), Hole(min_tokens=6, max_tokens=6), Text("ijk\n")), drafts=True, seed=1)
    run, typed = engine.infill(request), False
    for event in run:
        if isinstance(event, Draft) and not typed:
            run.amend(0, "x")
            typed = True
        if isinstance(event, Candidate):
            assert event.texts[0].startswith("x")

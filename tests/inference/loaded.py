"""Test access to a loaded model beyond the engine's: its network, its cache, and prefixes read in one go."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import torch
from safetensors.torch import load_file, save_file

from inference.engine.canvas.layout import CanvasPlan
from inference.engine.canvas.plan import CanvasPlanner
from inference.engine.engine import Engine
from inference.messages import Hole, InfillRequest, PinnedText
from inference.models.diffusion_gemma.adapter import DiffusionGemmaAdapter, EncodedPrefixHandle
from inference.models.diffusion_gemma.encoded_prefix import EncodedPrefix, new_prefix_cache
from inference.models.diffusion_gemma.network import DiffusionGemmaNetwork

TWIN = Path(__file__).parents[1] / "data" / "twin"


def gemma(engine: Engine) -> DiffusionGemmaAdapter:
    assert isinstance(engine.loaded.adapter, DiffusionGemmaAdapter)
    return engine.loaded.adapter


def using(engine: Engine, **changes: object) -> Engine:
    """An engine that shares the model, and searches by other infill_config."""
    infill_config = msgspec.structs.replace(engine.loaded.infill_config, **changes)
    return Engine(replace(engine.loaded, infill_config=infill_config))


@contextmanager
def opened(engine: Engine, prefix_ids: Sequence[int]) -> Iterator[EncodedPrefixHandle]:
    context = gemma(engine).open_prefix(prefix_ids)
    for _ in context.prefill():
        pass
    yield context
    context.close()


def planned(engine: Engine, *segments: PinnedText | Hole, short: bool = False, **options: object) -> CanvasPlan:
    """The first canvas of a request."""
    model = engine.loaded
    request = InfillRequest("r", segments, **options)  # type: ignore[arg-type]
    planner = CanvasPlanner(model.vocabulary, model.infill_config, request, fills_canvas=model.is_full_canvas_free)
    return planner.plan(planner.group_from(0), [], short=short)


def causal_logits(network: DiffusionGemmaNetwork, ids: Sequence[int]) -> torch.Tensor:
    """(n, V) logits of the token after each of `ids`, from one fresh pass over everything."""
    fresh = EncodedPrefix(network, new_prefix_cache(network, 0), [])
    return network.logits(network.encode(torch.tensor([list(ids)], device=network.device), fresh)[0])


def check_nothing_is_open(engine: Engine) -> None:
    """Once no request runs nobody reads a prefix."""
    assert not any(slot.readers for slot in gemma(engine).prefixes.slots)


def save_with_broken_encoder(folder: Path) -> None:
    """The twin, its encoder's layers scaled wrongly. What only the decoder uses is as it was."""
    shutil.copytree(TWIN, folder)
    weights = load_file(folder / "model.safetensors")
    scalars = [name for name in weights if "encoder" in name and name.endswith("layer_scalar")]
    weights |= {name: weights[name] * 0.5 for name in scalars}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

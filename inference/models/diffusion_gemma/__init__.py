"""DiffusionGemma: a causal encoder reads the prefix, and a decoder of the same weights denoises canvases behind it.

What registry.py needs to know of the family stands here; torch is imported when a model is loaded.
"""

import json
from pathlib import Path
from typing import Any

from inference.models.checkpoint import Checkpoint
from inference.models.family import Family, OnProgress, Properties, SamplerSettings


def default_properties(folder: Path, config: dict[str, Any]) -> Properties:
    """A checkpoint without `infill.json` is taken for a released one: uniform noise, no slack token, chat prompt."""
    file = folder / "generation_config.json"
    stated = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    fallback = SamplerSettings()
    sampler = SamplerSettings(
        max_steps=stated.get("max_denoising_steps") or fallback.max_steps,
        entropy_bound=(stated.get("sampler_config") or {}).get("entropy_bound") or fallback.entropy_bound,
        t_max=stated.get("t_max") or fallback.t_max,
        t_min=stated.get("t_min") or fallback.t_min,
        stability=fallback.stability if stated.get("stability_threshold") is None else stated["stability_threshold"],
        confidence=stated.get("confidence_threshold") or fallback.confidence,
    )
    return Properties(canvas_tokens=config.get("canvas_length") or 256, prompt="chat", sampler=sampler)


def load(found: Checkpoint, device: str | None, dtype: str | None, progress: OnProgress) -> Family:
    """The model in memory. Raises ModelError where it does not fit or its weights are not what the checkpoint says.

    Where no dtype is named, a CPU may multiply the rows of canvases in bfloat16 although it computes in float32.
    """
    from inference.models.diffusion_gemma.adapter import DiffusionGemma

    return DiffusionGemma.load(found, device, dtype, progress)

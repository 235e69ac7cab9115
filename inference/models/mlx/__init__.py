"""Models through MLX, which uses the GPU of Apple silicon: the passes of models/diffusion_gemma, with mlx-vlm's layers,
and those of models/llama for causal models. Their families provide the rest, including the prefix cache.

Holds what registry.py needs; MLX is imported when a model is loaded.
"""

from inference.models.checkpoint import Checkpoint
from inference.models.family import ModelAdapter, OnProgress
from inference.models.mlx.machine import is_default, require_mlx_device, unusable_error


def _needs_vlm(checkpoint: Checkpoint) -> bool:
    """Whether the model needs mlx-vlm's layers; those of causal models are ours."""
    return checkpoint.model_type == "diffusion_gemma"


def runs_by_default(checkpoint: Checkpoint) -> bool:
    """Whether the model runs in MLX here if no device is named."""
    return is_default(with_vlm=_needs_vlm(checkpoint))


def load(checkpoint: Checkpoint, dtype: str | None, progress: OnProgress) -> ModelAdapter:
    """The loaded model. Raises ModelError if MLX is missing, or the weights differ from their description."""
    with_vlm = _needs_vlm(checkpoint)
    target = require_mlx_device(with_vlm=with_vlm)
    progress(0.05, "loading MLX")
    try:
        if with_vlm:
            from inference.models.mlx import weights as reader
        else:
            from inference.models.mlx import llama_weights as reader  # type: ignore[no-redef]
    except ImportError as error:
        raise unusable_error(error, with_vlm=with_vlm) from error
    return reader.load_adapter(checkpoint, target, dtype, progress)

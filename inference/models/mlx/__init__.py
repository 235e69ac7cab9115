"""DiffusionGemma through MLX, which uses the GPU of Apple silicon: the passes of models/diffusion_gemma, with mlx-vlm's
layers. That family provides the rest, including the prefix cache.

Holds what registry.py needs; MLX is imported when a model is loaded.
"""

from inference.models.checkpoint import Checkpoint
from inference.models.diffusion_gemma.config import read_mlx_packing
from inference.models.family import ModelAdapter, ModelError, OnProgress
from inference.models.mlx.machine import DEVICE, INSTALL, is_apple_silicon, is_installed, require_mlx_device


def runs_by_default(checkpoint: Checkpoint) -> bool:
    """Whether it runs here by default, if no device is named: on a Mac, or if MLX has packed the weights."""
    return is_installed() and (is_apple_silicon() or read_mlx_packing(checkpoint) is not None)


def load(checkpoint: Checkpoint, dtype: str | None, progress: OnProgress) -> ModelAdapter:
    """The loaded model. Raises ModelError if MLX is missing, or the weights differ from their description."""
    target = require_mlx_device()
    progress(0.05, "loading MLX")
    try:
        from inference.models.mlx import weights
    except ImportError as error:
        raise ModelError(f"device '{DEVICE}' cannot be used here: {error}; {INSTALL}") from error
    return weights.load_adapter(checkpoint, target, dtype, progress)

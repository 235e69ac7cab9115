"""DiffusionGemma: a causal encoder reads the prefix, and a decoder of the same weights denoises canvases behind it.

Holds what registry.py needs from the family; torch is imported when a model is loaded.
"""

from inference.models.checkpoint import Checkpoint
from inference.models.diffusion_gemma.config import check, default_properties, packing_of
from inference.models.family import Family, ModelError, OnProgress

__all__ = ["check", "default_properties", "load"]


def load(found: Checkpoint, device: str | None, dtype: str | None, progress: OnProgress) -> Family:
    """The loaded model. Raises ModelError if it does not fit, or its weights differ from their description."""
    if packing_of(found) is not None:
        raise ModelError(
            f"{found.name}: MLX has packed its weights, and only MLX reads them; on a Mac with Apple silicon "
            "install infill-ls[mlx] and leave out the device; elsewhere choose a checkpoint that is not packed"
        )
    from inference.models.diffusion_gemma.adapter import DiffusionGemma

    return DiffusionGemma.load(found, device, dtype, progress)

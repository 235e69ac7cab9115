"""DiffusionGemma: a causal encoder reads the prefix, and a decoder of the same weights denoises canvases behind it.

Holds what registry.py needs from the family; torch is imported when a model is loaded.
"""

from inference.models.checkpoint import Checkpoint
from inference.models.diffusion_gemma.config import check, default_properties, refuse_packed
from inference.models.family import Family, OnProgress

__all__ = ["check", "default_properties", "dtypes", "load", "weight_bytes"]


def load(found: Checkpoint, device: str | None, dtype: str | None, progress: OnProgress) -> Family:
    """The loaded model. Raises ModelError if it does not fit, or its weights differ from their description."""
    refuse_packed(found)
    from inference.models.diffusion_gemma.adapter import DiffusionGemma

    return DiffusionGemma.load(found, device, dtype, progress)


def dtypes(device: str | None, wanted: str | None) -> tuple[str, ...]:
    """The dtypes to try on a device, best first. Raises ModelError."""
    from inference.models import devices

    return devices.place(device, wanted).dtypes


def weight_bytes(found: Checkpoint, dtype: str) -> float:
    """The memory of the weights in a dtype, whether or not they fit. Raises ModelError."""
    refuse_packed(found)
    from inference.models.devices import PRECISIONS
    from inference.models.diffusion_gemma import weights

    return weights.weight_bytes(found, PRECISIONS[dtype])

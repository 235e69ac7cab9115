"""Masked-diffusion code models on plain Qwen2 weights: every row sees every row, and a mask token marks a gap.

Holds what registry.py needs from the family; torch is imported when a model is loaded.
"""

from inference.models.checkpoint import Checkpoint
from inference.models.family import Family, OnProgress
from inference.models.masked.stated import check, default_properties

__all__ = ["check", "default_properties", "dtypes", "load", "weight_bytes"]


def load(found: Checkpoint, device: str | None, dtype: str | None, progress: OnProgress) -> Family:
    """The loaded model. Raises ModelError if it does not fit, or its weights differ from their description."""
    from inference.models.masked.adapter import MaskedDiffusion

    return MaskedDiffusion.load(found, device, dtype, progress)


def dtypes(device: str | None, wanted: str | None) -> tuple[str, ...]:
    """The dtypes to try on a device, best first. Raises ModelError."""
    from inference.models import devices
    from inference.models.masked import weights

    return tuple(precision.name for precision in weights.precisions(devices.choose_device(device), wanted))


def weight_bytes(found: Checkpoint, dtype: str) -> float:
    """The memory of the weights in a dtype, whether or not they fit. Raises ModelError."""
    from inference.models.devices import PRECISIONS
    from inference.models.masked import weights

    return weights.weight_bytes(found, PRECISIONS[dtype])

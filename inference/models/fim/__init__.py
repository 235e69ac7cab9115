"""Causal code models that were trained to fill the middle: told prefix and suffix, they write what stands between.

What registry.py needs to know of the family stands here; torch is imported when a model is loaded.
"""

from inference.models.checkpoint import Checkpoint
from inference.models.family import Family, OnProgress
from inference.models.fim.stated import check, default_properties

__all__ = ["check", "default_properties", "dtypes", "load", "weight_bytes"]


def load(found: Checkpoint, device: str | None, dtype: str | None, progress: OnProgress) -> Family:
    """The model in memory. Raises ModelError where it does not fit or its weights are not what the checkpoint says."""
    from inference.models.fim.adapter import FillInMiddle

    return FillInMiddle.load(found, device, dtype, progress)


def dtypes(device: str | None, wanted: str | None) -> tuple[str, ...]:
    """The dtypes that are tried on a device, the best one first. Raises ModelError."""
    from inference.models import devices
    from inference.models.fim import formats

    return tuple(each.name for each in formats.candidates(devices.choose_device(device), wanted))


def weight_bytes(found: Checkpoint, dtype: str) -> float:
    """How much memory the weights take in a dtype, whether they fit or not. Raises ModelError."""
    from inference.models.devices import PRECISIONS
    from inference.models.fim import weights

    return weights.weight_bytes(found, PRECISIONS[dtype])

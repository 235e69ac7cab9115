"""Causal code models trained to fill the middle: given prefix and suffix, they write the text in between.

Holds what registry.py needs from the family; torch is imported when a model is loaded.
"""

from inference.models.checkpoint import Checkpoint
from inference.models.family import Family, OnProgress
from inference.models.fim.stated import check, default_properties

__all__ = ["check", "default_properties", "dtypes", "load", "weight_bytes"]


def load(found: Checkpoint, device: str | None, dtype: str | None, progress: OnProgress) -> Family:
    """The loaded model. Raises ModelError if it does not fit, or its weights differ from their description."""
    from inference.models.fim.adapter import FillInMiddle

    return FillInMiddle.load(found, device, dtype, progress)


def dtypes(device: str | None, wanted: str | None) -> tuple[str, ...]:
    """The dtypes to try on a device, best first. Raises ModelError."""
    from inference.models import devices
    from inference.models.fim import formats

    return tuple(each.name for each in formats.candidates(devices.choose_device(device), wanted))


def weight_bytes(found: Checkpoint, dtype: str) -> float:
    """The memory of the weights in a dtype, whether or not they fit. Raises ModelError."""
    from inference.models.devices import PRECISIONS
    from inference.models.fim import weights

    return weights.weight_bytes(found, PRECISIONS[dtype])

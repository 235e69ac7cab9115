"""What published checkpoints need, known before they are on this machine. Their files say the same once they are."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A checkpoint on a hub. `weight_bytes`: what its weights take in memory, by dtype."""

    name: str
    weight_bytes: Mapping[str, float]


RELEASED = Published("google/diffusiongemma-26B-A4B-it", {"float32": 102e9, "bfloat16": 51e9, "4bit": 18.1e9})
"""The checkpoint that infill-ls is made for."""

"""How MLX's tools pack weights, and how their checkpoints declare it. Nothing here needs MLX.

A packed matrix (..., rows, columns) is stored as `X.weight`, 32 / bits numbers in each word, with `X.scales` and, in
MLX's own mode, `X.biases` for each group of columns. config.json gives the usual packing as `quantization`.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from inference.models import checkpoint_files
from inference.models.checkpoint import Checkpoint
from inference.models.family import ModelError


class Packing(msgspec.Struct, frozen=True):
    """`quantization` in config.json. It may also list single matrices, but their shapes say the same."""

    group_size: Literal[16, 32, 64, 128]
    bits: Annotated[int, Meta(ge=2, le=8)]
    mode: Literal["affine", "mxfp4", "nvfp4", "mxfp8"] = "affine"


class _Stated(msgspec.Struct):
    quantization: Packing | None = None


def packing_of(found: Checkpoint) -> Packing | None:
    """The usual packing of a checkpoint's matrices; None if MLX has not packed it. Raises ModelError."""
    return checkpoint_files.converted(found.folder / "config.json", found.config, _Stated).quantization


def refuse(found: Checkpoint) -> None:
    """Raises ModelError if MLX has packed the weights: nothing else reads them."""
    if packing_of(found) is not None:
        raise ModelError(
            f"{found.name}: MLX has packed its weights, and only MLX reads them; on a Mac with Apple silicon "
            "install infill-ls[mlx] and leave out the device; elsewhere choose a checkpoint that is not packed"
        )


def scales_of(weight: str) -> str:
    """The name of a packed weight's scales."""
    return weight.removesuffix("weight") + "scales"

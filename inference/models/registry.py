"""Finds and loads the model of a checkpoint, by the family it belongs to. To add a family, add it to `_FAMILIES`."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from inference.models import diffusion_gemma, fim, masked, mlx, tokenizer_files
from inference.models.catalogue import EMBEDDED
from inference.models.checkpoint import Checkpoint, find_checkpoint
from inference.models.family import ModelAdapter, ModelError, OnProgress
from inference.models.infill_config import HoleNoise, InfillConfig
from inference.models.mlx.machine import DEVICE as MLX


class ModelFamily(Protocol):
    """The functions of a family's package. Importing it must not import torch, which takes seconds."""

    def default_infill_config(self, folder: Path, config: dict[str, Any]) -> InfillConfig:
        """The settings of a checkpoint of this family without `infill.json`. Raises ModelError."""

    def check(self, checkpoint: Checkpoint) -> None:
        """Raises ModelError if its files make no sense or do not fit each other. Reads no weights."""

    def load(self, checkpoint: Checkpoint, device: str | None, dtype: str | None, progress: OnProgress) -> ModelAdapter:
        """The loaded model. Raises ModelError.

        If `dtype` is given, computes exactly in it; without, may use faster, less precise kernels.
        """


_FAMILIES: Mapping[str, ModelFamily] = {
    "diffusion_gemma": diffusion_gemma,
    "qwen2": masked,
    "Dream": masked,
    "a2d-qwen2": masked,
    "llama": fim,
    "qwen3": fim,
    "granite": fim,
}
"""By the `model_type` in config.json."""
_CAUSAL = {"qwen2": fim}
"""Of these, by `model_type`, the checkpoints without a mask token are causal and fill the middle."""
_ON_MLX: tuple[ModelFamily, ...] = (diffusion_gemma, fim)
"""The families that run on the device `mlx`, too."""


def open_checkpoint(model: str) -> Checkpoint:
    """The checkpoint called `model`. Reads no weights and downloads nothing. Raises ModelError."""
    checkpoint = find_checkpoint(model, {name: partial(_default_infill_config, name) for name in _FAMILIES})
    _family(checkpoint).check(checkpoint)
    checkpoint.check_token_ids()
    return checkpoint


def _default_infill_config(model_type: str, folder: Path, config: dict[str, Any]) -> InfillConfig:
    """The settings of a checkpoint without `infill.json`. Raises ModelError."""
    module = _FAMILIES[model_type]
    if model_type in _CAUSAL and tokenizer_files.read_special_token_ids(folder, config).mask is None:
        module = _CAUSAL[model_type]
    return module.default_infill_config(folder, config)


def _family(checkpoint: Checkpoint) -> ModelFamily:
    """The family that runs a checkpoint on a device of torch."""
    is_causal = checkpoint.model_type in _CAUSAL and checkpoint.infill_config.corruption != HoleNoise.MASK
    return (_CAUSAL if is_causal else _FAMILIES)[checkpoint.model_type]


def _runs_in_mlx(checkpoint: Checkpoint, device: str | None) -> bool:
    """Whether MLX computes a checkpoint on this device. Raises ModelError if it cannot."""
    is_able = _family(checkpoint) in _ON_MLX
    if device == MLX and not is_able:
        raise ModelError(f"{checkpoint.name}: device '{MLX}' runs no masked models; choose another one")
    return is_able and (device == MLX or (device is None and mlx.runs_by_default(checkpoint)))


def load_model(
    model: str = EMBEDDED,
    *,
    device: str | None = None,
    dtype: str | None = None,
    on_progress: OnProgress = lambda _fraction, _what: None,
) -> ModelAdapter:
    """The model called `model`, loaded in seconds to minutes. Raises ModelError."""
    on_progress(0.0, "checking the checkpoint")
    checkpoint = open_checkpoint(model)
    if _runs_in_mlx(checkpoint, device):
        adapter = mlx.load(checkpoint, dtype, on_progress)
    else:
        adapter = _family(checkpoint).load(checkpoint, device, dtype, on_progress)
    on_progress(1.0, "loaded")
    return adapter

"""Reads the weights of a checked checkpoint into transformers' own class."""

import math
from typing import Any

import torch

from inference.models import checkpoint_files, devices
from inference.models.checkpoint import Checkpoint
from inference.models.devices import FOUR_BIT, PRECISIONS, Precision
from inference.models.diffusion_gemma import four_bit
from inference.models.family import ModelError, OnProgress
from inference.models.shards import Shards

_MISSING_PARAMETERS = 1 << 26
"""A small checkpoint may lack this many, 256 MB of them."""


def choose_precision(checkpoint: Checkpoint, device: torch.device, wanted: str | None, free_bytes: int) -> Precision:
    """The requested precision, or the best that fits into this much free memory. Raises ModelError if none does."""
    if wanted == devices.EIGHT_BIT:
        raise ModelError(f"{checkpoint.name}: dtype '8bit' is not for this kind of model; choose 4bit or bfloat16")
    candidates = devices.precisions(wanted, device)
    return devices.fitting(checkpoint.name, device, free_bytes, candidates, lambda one: weight_bytes(checkpoint, one))


def weight_bytes(checkpoint: Checkpoint, precision: Precision) -> float:
    """The memory of the weights. Raises ModelError if that depends on a file that cannot be read."""
    if precision.name == FOUR_BIT:
        return four_bit.weight_bytes(Shards(checkpoint))
    stored = checkpoint.config.get("dtype") or checkpoint.config.get("torch_dtype") or "bfloat16"
    stored_dtype = PRECISIONS[stored].dtype if stored in PRECISIONS else torch.bfloat16
    return checkpoint.weight_bytes * precision.dtype.itemsize / stored_dtype.itemsize


def read(checkpoint: Checkpoint, device: torch.device, precision: Precision, progress: OnProgress) -> Any:
    """The `DiffusionGemmaForBlockDiffusion` of a checkpoint, on its device and in a precision that fits there.

    Raises ModelError if its weights differ from the checkpoint's description.
    """
    progress(0.15, "loading the model library")
    from transformers import DiffusionGemmaForBlockDiffusion
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    if precision.name == FOUR_BIT:
        return four_bit.read(Shards(checkpoint), device, precision.dtype, progress).eval()
    progress(0.35, "checking sizes")
    _check_sizes(DiffusionGemmaForBlockDiffusion, checkpoint)
    progress(0.4, "loading weights")
    return _read(DiffusionGemmaForBlockDiffusion, checkpoint, device, precision.dtype).eval()


def _check_sizes(architecture: Any, checkpoint: Checkpoint) -> None:
    """Raises ModelError if config.json describes a model far larger than its weights: allocating the missing ones would
    exhaust memory first. Some may be missing: the vision tower is not needed.
    """
    file = checkpoint.folder / "config.json"
    try:
        config = architecture.config_class.from_pretrained(checkpoint.folder, local_files_only=True)
        with torch.device("meta"):  # shapes without memory
            model = architecture(config)
    except Exception as error:  # a broken file raises anything, and must not end the worker
        raise ModelError(
            f"{file} describes no model that can be built: {checkpoint_files.first_line(error)}"
        ) from error
    described = sum(parameter.numel() for parameter in model.parameters())
    stored = sum(math.prod(tensor.shape) for tensor in checkpoint_files.stored_tensors(checkpoint.folder).values())
    if described > 2 * stored + _MISSING_PARAMETERS:
        raise ModelError(
            f"{file}: text_config and vision_config describe {described / 1e6:.0f} million parameters, but the weights "
            f"have {stored / 1e6:.0f} million; download the checkpoint again"
        )


def _read(architecture: Any, checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype) -> Any:
    placement = {} if device.type == "cpu" else {"device_map": {"": str(device)}}
    try:
        model, info = architecture.from_pretrained(
            checkpoint.folder,
            dtype=dtype,
            local_files_only=True,
            use_safetensors=True,
            attn_implementation="sdpa",
            output_loading_info=True,
            **placement,
        )
    except Exception as error:  # a broken file raises anything, and must not end the worker
        raise ModelError(f"{checkpoint.name}: its weights cannot be loaded: {error}") from error
    missing = [name for name in info.get("missing_keys", ()) if "vision" not in name]
    wrong = list(info.get("mismatched_keys", ()))
    if missing or wrong:
        example = next(iter(missing or wrong))
        raise ModelError(
            f"{checkpoint.name}: {len(missing) + len(wrong)} weights are missing or of another shape "
            f"(such as {example}); download the checkpoint again"
        )
    return model

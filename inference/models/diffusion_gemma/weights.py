"""From a checked checkpoint to a network in memory: device, dtype, whether it fits, and the weights themselves."""

from collections.abc import Callable
from typing import Any

import psutil
import torch

from inference.engine.errors import ModelError
from inference.models.checkpoint import Checkpoint
from inference.models.diffusion_gemma import fused, packed, static_shapes
from inference.models.diffusion_gemma.network import Network

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_HEADROOM = 1.15
"""Weights need this much more memory than they take, for the activations of the smallest request."""

Progress = Callable[[float, str], None]


def choose_device(wanted: str | None) -> torch.device:
    """The device to run on: the wanted one, else CUDA, else Apple's, else the CPU. Raises ModelError."""
    if wanted is None:
        wanted = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(1, device=wanted)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device '{wanted}' cannot be used here: {str(error).splitlines()[0]}") from error
    return torch.device(wanted)


def choose_dtype(wanted: str | None, device: torch.device) -> torch.dtype:
    """The dtype to compute in: the wanted one, else float32 on a CPU and bfloat16 elsewhere. Raises ModelError."""
    if wanted is None:
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    if wanted not in DTYPES:
        raise ModelError(f"dtype '{wanted}' is unknown; choose one of {', '.join(DTYPES)}")
    return DTYPES[wanted]


def free_bytes(device: torch.device) -> int:
    """How much memory a model could take on this device right now."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def load(
    checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype, progress: Progress, *, exact: bool = True
) -> Network:
    """The network of a checkpoint. Raises ModelError where it does not fit or its weights are not what it says.

    Unless `exact`, a CPU may compute canvases in less precision than `dtype` where that is faster.
    """
    progress(0.1, "checking memory")
    _check_fits(checkpoint, device, dtype)
    progress(0.15, "loading the model library")
    from transformers import DiffusionGemmaForBlockDiffusion
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    progress(0.4, "loading weights")
    model = _read_weights(DiffusionGemmaForBlockDiffusion, checkpoint, device, dtype)
    progress(0.9, "preparing")
    return prepared(model.eval(), exact=exact)


def prepared(model: Any, *, exact: bool = True) -> Network:
    """The network of a loaded model, with what makes it faster on its device.

    Unless `exact`, a CPU that can makes the products of canvas passes in bfloat16.
    """
    fused.take(model)
    network = Network(model)
    if network.device.type == "cpu":
        packed.take(network, exact=exact)
    if network.device.type == "cuda":
        model.set_experts_implementation("grouped_mm")  # the stock loop visits each expert from Python
        shapes = static_shapes.verified(network)
        network.fast_decode = None if shapes is None else shapes.decode
    return network


def _read_weights(architecture: Any, checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype) -> Any:
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
    _check_complete(checkpoint, info)
    return model


def _check_fits(checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype) -> None:
    stored = checkpoint.config.get("dtype") or checkpoint.config.get("torch_dtype") or "bfloat16"
    scale = dtype.itemsize / DTYPES.get(stored, torch.bfloat16).itemsize
    needed, free = int(checkpoint.weight_bytes * scale * _HEADROOM), free_bytes(device)
    if needed > free:
        raise ModelError(
            f"{checkpoint.name} needs {needed / 1e9:.1f} GB in {str(dtype).removeprefix('torch.')}, but {device} has "
            f"{free / 1e9:.1f} GB free; use a smaller dtype, another device, or the embedded model"
        )


def _check_complete(checkpoint: Checkpoint, info: dict[str, Any]) -> None:
    missing = [name for name in info.get("missing_keys", ()) if "vision" not in name]
    wrong = list(info.get("mismatched_keys", ()))
    if missing or wrong:
        example = next(iter(missing or wrong))
        raise ModelError(
            f"{checkpoint.name}: {len(missing) + len(wrong)} weights are missing or of another shape "
            f"(such as {example}); download the checkpoint again"
        )

"""Loads a checkpoint into MLX and makes a `Family` of it."""

import mlx.core as mx

from inference.models.checkpoint import Checkpoint
from inference.models.devices import needed_bytes
from inference.models.diffusion_gemma.adapter import DiffusionGemma, cache_budget
from inference.models.family import ModelError, OnProgress
from inference.models.mlx import machine, size, weights
from inference.models.mlx.network import MlxNetwork

_KEPT_BYTES = 1 << 30
"""How much memory MLX may keep for later that nothing uses; canvases of every width need other buffers."""


def load(found: Checkpoint, here: machine.Machine, dtype: str | None, progress: OnProgress) -> DiffusionGemma:
    """The model in the memory of this machine. Raises ModelError."""
    tokenizer = found.tokenizer()
    progress(0.1, "checking memory")
    precision = _fitting(found, here, dtype)
    _prepare(here)
    model = weights.read(found, precision, on_gpu=here.on_gpu, progress=progress)
    network = MlxNetwork(model)
    free_bytes = machine.look().free_bytes
    cache_bytes = cache_budget(network, found.properties, free_bytes, on_cpu=not here.on_gpu)
    return DiffusionGemma(found, tokenizer, network, precision, cache_bytes, here.name)


def _fitting(found: Checkpoint, here: machine.Machine, wanted: str | None) -> str:
    """The wanted dtype, else the best one in which the weights fit here. Raises ModelError."""
    needs = []
    for dtype in here.dtypes(found, wanted):
        needed = needed_bytes(size.weight_bytes(found, dtype))
        if needed <= here.free_bytes:
            return dtype
        needs.append(f"{needed / 1e9:.1f} GB in {dtype}")
    raise ModelError(
        f"{found.name} needs {' or '.join(needs)}, but {here.name} has {here.free_bytes / 1e9:.1f} GB free; "
        "use a smaller dtype, close other programs, or choose a smaller model"
    )


def _prepare(here: machine.Machine) -> None:
    if here.on_gpu:
        mx.set_wired_limit(here.total_bytes)  # weights that were not used for a while stay in memory
        mx.set_cache_limit(_KEPT_BYTES)
    else:
        mx.disable_compile()  # on a CPU it calls a C++ compiler, which need not be there

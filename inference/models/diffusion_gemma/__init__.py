"""DiffusionGemma: a causal encoder reads the prefix, and a decoder of the same weights denoises canvases after it.

Has the functions that registry.py needs; torch is imported only when a model is loaded.
"""

from inference.models.checkpoint import Checkpoint
from inference.models.diffusion_gemma.config import check, default_infill_config
from inference.models.family import ModelAdapter, OnProgress

__all__ = ["check", "default_infill_config", "load"]


def load(checkpoint: Checkpoint, device: str | None, dtype: str | None, progress: OnProgress) -> ModelAdapter:
    """Loads the model. Raises ModelError if it does not fit into memory, or its weights differ from their headers."""
    from inference.models import devices
    from inference.models.diffusion_gemma import adapter, cuda_graphs, weights

    tokenizer = checkpoint.tokenizer()
    target = devices.choose_device(device)
    progress(0.1, "checking memory")
    chosen = weights.choose_dtype(checkpoint, target, dtype, devices.free_bytes(target))
    tensors = weights.open_weights(checkpoint, chosen)
    model = weights.load_model(checkpoint, tensors, target, chosen, progress)
    progress(0.9, "preparing")
    network = cuda_graphs.fastest_network(model)
    network.note = "; ".join(filter(None, (tensors.note, network.note)))
    free_bytes = devices.free_bytes(target)
    cache_bytes = adapter.cache_budget(network, checkpoint.infill_config, free_bytes, on_cpu=target.type == "cpu")
    return adapter.DiffusionGemmaAdapter(checkpoint, tokenizer, network, chosen, cache_bytes)

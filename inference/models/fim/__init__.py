"""Causal code models trained to fill in the middle: given prefix and suffix, they decode the text in between.

Has the functions that registry.py needs; torch is imported only when a model is loaded.
"""

from pathlib import Path
from typing import Any

from inference.models import tokenizer_files
from inference.models.checkpoint import Checkpoint
from inference.models.family import ModelAdapter, ModelError, OnProgress
from inference.models.infill_config import InfillConfig
from inference.models.llama.config import checked_config

MAX_PREFIX_TOKENS, SUFFIX_TOKENS = 1024, 256
"""All tokens of both are prefilled before the first one is decoded, some 250 a second on a laptop. From one line to the
next the prefix stays cached; the start of the suffix, which follows it in the prompt, is prefilled again.
"""

_MIN_CONTEXT_TOKENS = 128


def default_infill_config(_place: Path, _config: dict[str, Any]) -> InfillConfig:
    """The settings of a published checkpoint, which has no `infill.json`."""
    return InfillConfig(max_prefix_tokens=MAX_PREFIX_TOKENS, suffix_tokens=SUFFIX_TOKENS, canvas_tokens=256)


def check(checkpoint: Checkpoint) -> None:
    """Raises ModelError if the config or the weights' headers are invalid or do not match. Reads no weights."""
    if (context := checked_config(checkpoint).max_position_embeddings) < _MIN_CONTEXT_TOKENS:
        raise ModelError(
            f"{checkpoint.name}: its context of {context} tokens is too short to fill holes, which takes "
            f"{_MIN_CONTEXT_TOKENS}; give another model"
        )


def load(checkpoint: Checkpoint, device: str | None, dtype: str | None, progress: OnProgress) -> ModelAdapter:
    """Loads the model. Raises ModelError if it does not fit into memory, or its weights differ from their headers."""
    from inference.models.fim import adapter
    from inference.models.llama import cuda_graphs, precision, weights

    tokenizer = tokenizer_files.load_tokenizer(checkpoint)
    network, dtype_name = weights.load_network(checkpoint, device, dtype, precision.candidate_formats, progress)
    return adapter.LlamaFimAdapter(checkpoint, tokenizer, cuda_graphs.fastest_network(network), dtype_name)

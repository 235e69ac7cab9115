"""Masked-diffusion code models on plain Qwen2 weights: every row sees every row, and a mask token marks a gap.

Has the functions that registry.py needs; torch is imported only when a model is loaded.
"""

from pathlib import Path
from typing import Any

from inference.models import tokenizer_files
from inference.models.checkpoint import Checkpoint
from inference.models.family import ModelAdapter, ModelError, OnProgress
from inference.models.infill_config import HoleNoise, InfillConfig, SamplerSettings
from inference.models.llama.config import checked_config

UNSHIFTED_ARCHITECTURES = ("A2DQwen2LMHeadModel",)
"""Architectures whose row i predicts position i, and not i + 1 like the causal models that they were adapted from."""

MAX_PREFIX_TOKENS, SUFFIX_TOKENS = 512, 128
"""Every row of both is computed with the first canvas. On a CPU 500 rows of half a billion weights take a second."""


def default_infill_config(folder: Path, config: dict[str, Any]) -> InfillConfig:
    """The settings of a published checkpoint, which has no `infill.json`. Raises ModelError."""
    tokens = tokenizer_files.read_special_token_ids(folder, config)
    if tokens.mask is None:
        raise ModelError(
            f"{folder / 'config.json'}: a '{config.get('model_type')}' model without a mask token writes from left to "
            "right alone and cannot fill holes; give a masked-diffusion checkpoint, or name its mask_token_id there"
        )
    architectures = config.get("architectures")
    in_place = isinstance(architectures, list) and any(name in UNSHIFTED_ARCHITECTURES for name in architectures)
    if in_place:  # MDLM's own settings, then DreamOn's, otherwise those that Dream and Open-dCoder generate with
        sampler = SamplerSettings(max_steps=128, t_max=0.0, t_min=0.0, method="confidence", schedule="rounded")
    elif tokens.expand is not None:
        sampler = SamplerSettings(max_steps=256, t_max=0.2, t_min=0.2, method="entropy", schedule="single", top_p=0.9)
    else:
        sampler = SamplerSettings(max_steps=64, t_max=0.0, t_min=0.0, method="entropy")
    return InfillConfig(
        corruption=HoleNoise.MASK,
        mask_token_id=tokens.mask,
        shifted_logits=not in_place,
        expand_token_id=tokens.expand,
        delete_token_id=None if tokens.expand is None else tokens.eos,
        bos_token_id=tokens.bos,
        eos_token_id=None if tokens.bos is None else tokens.eos,
        max_prefix_tokens=MAX_PREFIX_TOKENS,
        suffix_tokens=SUFFIX_TOKENS,
        prompt="plain",
        sampler=sampler,
    )


def check(checkpoint: Checkpoint) -> None:
    """Raises ModelError if config.json and the headers of the weights do not fit each other."""
    checked_config(checkpoint)
    if checkpoint.infill_config.corruption != HoleNoise.MASK:
        raise ModelError(f"{checkpoint.folder / 'infill.json'}: corruption: a masked-diffusion checkpoint needs 'mask'")


def load(checkpoint: Checkpoint, device: str | None, dtype: str | None, progress: OnProgress) -> ModelAdapter:
    """Loads the model. Raises ModelError if it does not fit into memory, or its weights differ from their headers."""
    from inference.models.llama import precision, weights
    from inference.models.masked import adapter

    tokenizer = tokenizer_files.load_tokenizer(checkpoint)
    network, dtype_name = weights.load_network(checkpoint, device, dtype, precision.formats_for_many_rows, progress)
    return adapter.MaskedDiffusionAdapter(checkpoint.name, network, checkpoint.infill_config, tokenizer, dtype_name)

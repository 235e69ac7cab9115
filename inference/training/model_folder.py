"""Writes a trained model as a folder that `--model` and transformers accept. Weights are shipped in bfloat16."""

import copy
from pathlib import Path
from typing import Any

import msgspec
import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
from transformers.models.diffusion_gemma.generation_diffusion_gemma import (
    DiffusionGemmaGenerationConfig,
    EntropyBoundSamplerConfig,
)
from transformers.utils import logging

from inference.models.properties import Properties
from inference.training import composer
from inference.training.config import DataConfig
from inference.training.tokenizer import SPECIAL_TOKENS, Tokens

_SPECIAL: dict[str, Any] = {
    **dict(zip(("pad_token", "eos_token", "bos_token", "mask_token"), SPECIAL_TOKENS, strict=False)),
    "additional_special_tokens": list(SPECIAL_TOKENS[-1:]),
}
_SHARD = "15MB"
_MASK_SAMPLER = {
    "max_steps": 32,
    "entropy_bound": 0.003,
    "t_max": 0.6,
    "t_min": 0.2,
    "stability": 1,
    "confidence": 0.02,
    "accept_floor": True,
}
"""A small mask checkpoint is rarely sure: it accepts few rows at a time, but some in each step, however unsure it is.
Most fills are stable long before the last step.
"""


def write_model(folder: Path, model: Any, tokenizer: Tokenizer, tokens: Tokens, data: DataConfig) -> None:
    """A folder that `--model` and `from_pretrained` accept, and that vLLM serves. Does not change the model itself."""
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    shipped = copy.deepcopy(model).to("cpu", torch.bfloat16)
    shipped.generation_config = _own_generation()
    shipped.save_pretrained(folder, max_shard_size=_SHARD)
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, **_SPECIAL, clean_up_tokenization_spaces=False
    )
    fast.save_pretrained(folder)
    write_properties(folder, _own_properties(tokens, data))


def _own_generation() -> DiffusionGemmaGenerationConfig:
    """The sampling settings of `infill.json`, for other programs."""
    return DiffusionGemmaGenerationConfig(  # type: ignore[no-untyped-call]
        max_denoising_steps=_MASK_SAMPLER["max_steps"],
        sampler_config=EntropyBoundSamplerConfig(entropy_bound=_MASK_SAMPLER["entropy_bound"]),
        t_min=_MASK_SAMPLER["t_min"],
        t_max=_MASK_SAMPLER["t_max"],
        stability_threshold=_MASK_SAMPLER["stability"],
        confidence_threshold=_MASK_SAMPLER["confidence"],
    )


def write_properties(folder: Path, properties: Properties | dict[str, Any]) -> None:
    """`infill.json`: information for the engine that `config.json` lacks."""
    (folder / "infill.json").write_bytes(msgspec.json.format(msgspec.json.encode(properties), indent=2))


def _own_properties(tokens: Tokens, data: DataConfig) -> dict[str, Any]:
    """The settings of a checkpoint with our own conventions; the rest are defaults."""
    return {
        "corruption": "mask",
        "mask_token_id": tokens.mask,
        "slack_token_id": tokens.slack,
        "first_text_token_id": tokens.first_text,
        "max_prefix_tokens": data.prefix_tokens,
        "canvas_tokens": data.canvas_tokens,
        "slots": composer.SLOTS,
        "prompt": "plain",
        "continuations": 8,
        "sampler": _MASK_SAMPLER,
    }

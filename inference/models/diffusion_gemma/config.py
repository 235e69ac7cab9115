"""Checks the config files of a DiffusionGemma checkpoint before the model library builds anything from them."""

import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from inference.models import checkpoint_files
from inference.models.checkpoint import Checkpoint
from inference.models.checkpoint_files import NumHeads, NumLayers, VocabularySize, require
from inference.models.family import ModelError
from inference.models.infill_config import CanvasTokens, InfillConfig, NotNegative, SamplerSettings, Steps

TINY_VISION = {
    "model_type": "gemma4_vision",
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 16,
}
"""The architecture has a vision tower; ours is minimal and never used."""

Size = Annotated[int, Meta(ge=1, le=1 << 20)]
HeadSize = Annotated[int, Meta(ge=2, le=4096)]
WindowSize = Annotated[int, Meta(ge=1, le=1 << 30)]
TokenIds = int | list[int] | None
"""Several times any published model's."""

_LAYER = re.compile(r"(?<!\w)layers\.(\d+)\.")
_LINE_STEPS = 8
_QUICK_STEPS = 4
_TOTAL_ENTROPY, _STILL_STEPS = 0.1, 2
"""Of 80 single-line tuning tasks with the true length given, 8 steps fill as well as 48: 15 % exact and 0.390, 11 % and
0.392. 4 steps are slightly worse: 13 % and 0.388.
"""


class _Text(msgspec.Struct, kw_only=True):
    """The text part of config.json. None stands for the model library's default."""

    num_hidden_layers: NumLayers
    hidden_size: Size
    vocab_size: VocabularySize
    intermediate_size: Size | None = None
    num_attention_heads: NumHeads | None = None
    num_key_value_heads: NumHeads | None = None
    num_global_key_value_heads: NumHeads | None = None
    head_dim: HeadSize | None = None
    global_head_dim: HeadSize | None = None
    max_position_embeddings: WindowSize | None = None
    rms_norm_eps: NotNegative | None = None
    num_experts: NumHeads | None = None
    top_k_experts: NumHeads | None = None
    moe_intermediate_size: Size | None = None
    sliding_window: WindowSize | None = None
    layer_types: list[Literal["sliding_attention", "full_attention"]] | None = None
    pad_token_id: TokenIds = None
    bos_token_id: TokenIds = None
    eos_token_id: TokenIds = None

    def __post_init__(self) -> None:
        """Raises ValueError if the values do not fit each other."""
        queries = self.num_attention_heads or 0
        for key in ("num_key_value_heads", "num_global_key_value_heads"):
            keys = getattr(self, key) or 1
            require(queries % keys == 0, f"{key}: {keys} does not divide num_attention_heads, {queries}")
        experts = self.num_experts or math.inf
        require((self.top_k_experts or 0) <= experts, f"top_k_experts: {self.top_k_experts} of {experts} experts")
        kinds = self.num_hidden_layers if self.layer_types is None else len(self.layer_types)
        require(kinds == self.num_hidden_layers, f"layer_types: {kinds} kinds for {self.num_hidden_layers} layers")


class _Config(msgspec.Struct):
    text_config: _Text
    canvas_length: CanvasTokens | None = None
    dtype: str | None = None
    torch_dtype: str | None = None


class _Sampler(msgspec.Struct):
    entropy_bound: NotNegative | None = None


class _Generation(msgspec.Struct):
    max_denoising_steps: Steps | None = None
    sampler_config: _Sampler | None = None
    t_max: NotNegative | None = None
    t_min: NotNegative | None = None
    stability_threshold: Annotated[int, Meta(ge=0, le=1000)] | None = None
    confidence_threshold: NotNegative | None = None


def default_infill_config(path: Path, config: dict[str, Any]) -> InfillConfig:
    """A checkpoint without `infill.json` counts as a released one: uniform noise, chat prompt.

    Samples as its files say, in a number of steps chosen with tests/data/twin. Raises ModelError.
    """
    generation = _generation(path, config)
    values: dict[str, Any] = {
        "max_steps": generation.max_denoising_steps,
        "entropy_bound": generation.sampler_config and generation.sampler_config.entropy_bound,
        "t_max": generation.t_max,
        "t_min": generation.t_min,
        "stability": generation.stability_threshold,
        "confidence": generation.confidence_threshold,
    }
    given = {name: value for name, value in values.items() if value is not None}
    sampler = SamplerSettings(**given, total_entropy=_TOTAL_ENTROPY, still_steps=_STILL_STEPS)
    return InfillConfig(
        canvas_tokens=_config(path, config).canvas_length or 256,
        prompt="chat",
        line_steps=min(_LINE_STEPS, sampler.max_steps),
        quick_steps=min(_QUICK_STEPS, sampler.max_steps),
        sampler=sampler,
    )


def check(checkpoint: Checkpoint) -> None:
    """Raises ModelError if config.json, generation_config.json, token ids and weights do not fit each other."""
    path = checkpoint.gguf.path if checkpoint.gguf else checkpoint.folder
    if "quantization" in checkpoint.config:
        raise ModelError(
            f"{path}: MLX packed its weights; give the original or a GGUF file such as "
            "diffusiongemma-26B-A4B-it-Q4_K_M.gguf"
        )
    _generation(path, checkpoint.config)  # the model library reads it in any case
    text = _config(path, checkpoint.config).text_config
    _check_weights(checkpoint.config_file, text, checkpoint.shapes())


def _generation(path: Path, config: dict[str, Any]) -> _Generation:
    if (generation := config.get("generation_config")) is not None:  # as a GGUF file has it
        return checkpoint_files.parse_struct(path, generation, _Generation)
    return checkpoint_files.read_struct(path / "generation_config.json", _Generation)


def _config(path: Path, config: dict[str, Any]) -> _Config:
    file = path if path.is_file() else path / "config.json"
    return checkpoint_files.parse_struct(file, config, _Config)


def _check_weights(file: Path, text: _Text, shapes: dict[str, tuple[int, ...]]) -> None:
    """Raises ModelError if the weights have another number of layers, vocabulary or width."""
    names = [name for name in shapes if "vision" not in name]
    stored = 1 + max((int(match[1]) for name in names if (match := _LAYER.search(name))), default=-1)
    if stored not in (0, text.num_hidden_layers):
        raise ModelError(f"{file}: text_config.num_hidden_layers: {text.num_hidden_layers}, the weights have {stored}")
    for name in names:
        expected = (text.vocab_size, text.hidden_size)
        if name.endswith("embed_tokens.weight") and shapes[name] != expected:
            raise ModelError(
                f"{file}: text_config.vocab_size, hidden_size: {expected}, but {name} is of shape {shapes[name]}; "
                "its weights are missing or of another shape; download the checkpoint again"
            )

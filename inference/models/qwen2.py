"""Checks a Qwen2's config.json and the headers of its weights, before reading any weight.

Masked-diffusion models and those that fill the middle have the same layers, under the same names.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from inference.models import checkpoint_files
from inference.models.checkpoint import Checkpoint
from inference.models.checkpoint_files import Heads, Layers, Vocabulary
from inference.models.family import ModelError
from inference.models.properties import NotNegative

Size = Annotated[int, Meta(ge=2, le=1 << 20)]
Theta = Annotated[float, Meta(ge=1.0, le=1e12)]
"""Several times any published model's."""


class _Rope(msgspec.Struct):
    rope_theta: Theta | None = None
    rope_type: str | None = None


class Qwen2Config(msgspec.Struct, frozen=True):
    """The part of config.json that describes the network."""

    vocab_size: Vocabulary
    hidden_size: Size
    intermediate_size: Size
    num_hidden_layers: Layers
    num_attention_heads: Heads
    num_key_value_heads: Heads
    rms_norm_eps: NotNegative = 1e-6
    tie_word_embeddings: bool = False
    hidden_act: str = "silu"
    use_sliding_window: bool = False
    head_dim: Heads | None = None
    rope_theta: Theta | None = None
    rope_parameters: _Rope | None = None
    rope_scaling: dict[str, Any] | None = None
    max_position_embeddings: Annotated[int, Meta(ge=1, le=1 << 24)] = 4096

    @property
    def head_size(self) -> int:
        """h, of queries, keys and values alike."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def theta(self) -> float:
        """The base of the positions' frequencies."""
        stated = self.rope_parameters.rope_theta if self.rope_parameters else None
        return stated or self.rope_theta or 10_000.0


def qwen2_config(checkpoint: Checkpoint) -> Qwen2Config:
    """The network that a checkpoint describes. Raises ModelError if it makes no sense or is not plain Qwen2."""
    file = checkpoint.source
    found = checkpoint_files.converted(file, checkpoint.config, Qwen2Config)
    if found.num_attention_heads % found.num_key_value_heads:
        raise ModelError(
            f"{file}: num_key_value_heads: {found.num_key_value_heads} does not divide num_attention_heads, "
            f"{found.num_attention_heads}"
        )
    if found.head_dim is None and found.hidden_size % found.num_attention_heads:
        raise ModelError(f"{file}: hidden_size: {found.num_attention_heads} heads do not divide {found.hidden_size}")
    if found.head_size % 2:
        raise ModelError(f"{file}: head_dim: {found.head_size} is odd; positions are turned into pairs of numbers")
    if found.hidden_act != "silu":
        raise ModelError(f"{file}: hidden_act: {found.hidden_act[:40]!r} is not Qwen2's 'silu'")
    if found.use_sliding_window:
        raise ModelError(
            f"{file}: use_sliding_window: windows are not supported; every row must see every row before it"
        )
    scaling = found.rope_scaling or {}
    stated = found.rope_parameters.rope_type if found.rope_parameters else None
    for kind in (stated, scaling.get("rope_type"), scaling.get("type")):
        if kind not in (None, "default"):
            raise ModelError(f"{file}: rope_scaling: {str(kind)[:40]!r} is not supported, only plain positions are")
    return found


def weight_shapes(config: Qwen2Config) -> dict[str, tuple[int, ...]]:
    """The shape of each weight by its name in the files; `lm_head.weight` may be missing if it is tied."""
    wide = config.hidden_size
    inner = config.intermediate_size
    queries = config.num_attention_heads * config.head_size
    keys = config.num_key_value_heads * config.head_size
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (wide,),
        "post_attention_layernorm.weight": (wide,),
        "mlp.gate_proj.weight": (inner, wide),
        "mlp.up_proj.weight": (inner, wide),
        "mlp.down_proj.weight": (wide, inner),
        "self_attn.o_proj.weight": (wide, queries),
    }
    for name, rows in (("q", queries), ("k", keys), ("v", keys)):
        layer |= {f"self_attn.{name}_proj.weight": (rows, wide), f"self_attn.{name}_proj.bias": (rows,)}
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config.vocab_size, wide)}
    for number in range(config.num_hidden_layers):
        shapes |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
    return shapes | {"model.norm.weight": (wide,), "lm_head.weight": (config.vocab_size, wide)}


def check_weights(found: Checkpoint, wanted: dict[str, tuple[int, ...]], stored: dict[str, tuple[int, ...]]) -> None:
    tied = bool(found.config.get("tie_word_embeddings"))
    for name, shape in wanted.items():
        if name not in stored:
            if tied and name == "lm_head.weight":
                continue
            raise ModelError(f"{found.name}: the weight {name} is missing; download the checkpoint again")
        if stored[name] != shape:
            raise ModelError(
                f"{found.source} describes {name} as {list(shape)}, but it is {list(stored[name])}; "
                "download the checkpoint again"
            )
    if unknown := [name for name in stored if name not in wanted and not name.endswith("rotary_emb.inv_freq")]:
        raise ModelError(
            f"{found.name}: {len(unknown)} of its weights (such as {min(unknown)[:100]}) are no part of a Qwen2 model "
            f"of this shape; {found.source.name} does not describe it"
        )

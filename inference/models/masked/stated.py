"""What the files of a masked-diffusion checkpoint state, checked before any of its weights is read.

Published checkpoints are plain Qwen2 with a mask token, under several names. Their own code is never run; all that is
needed of it is which row predicts which position, and whether tokens for a hole's length are there.
"""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from inference.models import checkpoint_files
from inference.models.checkpoint import Checkpoint
from inference.models.checkpoint_files import StoredTensor
from inference.models.family import ModelError, NoiseKind, NotNegative, Properties, SamplerSettings
from inference.models.masked import token_files

Layers = Annotated[int, Meta(ge=1, le=512)]
Size = Annotated[int, Meta(ge=2, le=1 << 20)]
Heads = Annotated[int, Meta(ge=1, le=1024)]
Vocabulary = Annotated[int, Meta(ge=8, le=1 << 22)]
Theta = Annotated[float, Meta(ge=1.0, le=1e12)]
"""Several times what any published model has."""

IN_PLACE = ("A2DQwen2LMHeadModel",)
"""Architectures whose row i predicts position i. In the others row i predicts position i + 1, as in the left-to-right
models that they were made of."""

MAX_PREFIX_TOKENS, SUFFIX_TOKENS = 512, 128
"""Every row of both is computed with the first canvas. On a CPU 500 rows of half a billion weights take a second."""


class _Rope(msgspec.Struct):
    rope_theta: Theta | None = None
    rope_type: str | None = None


class Qwen2Config(msgspec.Struct, frozen=True):
    """The part of config.json that says what the network is."""

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

    @property
    def head_size(self) -> int:
        """h, of queries, keys and values alike."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def theta(self) -> float:
        """The base of the positions' frequencies."""
        stated = self.rope_parameters.rope_theta if self.rope_parameters else None
        return stated or self.rope_theta or 10_000.0


def default_properties(folder: Path, config: dict[str, Any]) -> Properties:
    """What is true of a published checkpoint, which has no `infill.json`. Raises ModelError."""
    tokens = token_files.named_tokens(folder, config)
    if tokens.mask is None:
        raise ModelError(
            f"{folder / 'config.json'}: a '{config.get('model_type')}' model without a mask token writes from left to "
            "right alone and cannot fill holes; give a masked-diffusion checkpoint, or name its mask_token_id there"
        )
    architectures = config.get("architectures")
    in_place = isinstance(architectures, list) and any(name in IN_PLACE for name in architectures)
    return Properties(
        corruption=NoiseKind.MASK.value,
        mask_token_id=tokens.mask,
        shifted_logits=not in_place,
        expand_token_id=tokens.expand,
        delete_token_id=None if tokens.expand is None else tokens.eos,
        bos_token_id=tokens.bos,
        eos_token_id=None if tokens.bos is None else tokens.eos,
        max_prefix_tokens=MAX_PREFIX_TOKENS,
        suffix_tokens=SUFFIX_TOKENS,
        prompt="plain",
        sampler=_sampler(in_place=in_place, resizes=tokens.expand is not None),
    )


def _sampler(*, in_place: bool, resizes: bool) -> SamplerSettings:
    """The published settings: MDLM's, DreamOn's, else what Dream and Open-dCoder generate with."""
    if in_place:
        return SamplerSettings(max_steps=128, t_max=0.0, t_min=0.0, method="confidence", schedule="rounded")
    if resizes:
        return SamplerSettings(max_steps=256, t_max=0.2, t_min=0.2, method="entropy", schedule="single", top_p=0.9)
    return SamplerSettings(max_steps=64, t_max=0.0, t_min=0.0, method="entropy")


def qwen2_config(folder: Path, config: dict[str, Any]) -> Qwen2Config:
    """The network that config.json describes. Raises ModelError where it makes no sense or is not plain Qwen2."""
    file = folder / "config.json"
    try:
        found = msgspec.convert(config, Qwen2Config)
    except msgspec.ValidationError as error:
        raise checkpoint_files.problem(file, error) from error
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
        raise ModelError(f"{file}: use_sliding_window: every row must see every row; this checkpoint cannot be used")
    scaling = found.rope_scaling or {}
    stated = found.rope_parameters.rope_type if found.rope_parameters else None
    for kind in (stated, scaling.get("rope_type"), scaling.get("type")):
        if kind not in (None, "default"):
            raise ModelError(f"{file}: rope_scaling: {str(kind)[:40]!r} is not supported, only plain positions are")
    return found


def check(found: Checkpoint) -> None:
    """Raises ModelError where config.json, the token ids or the headers of the weights make no sense, or do not fit
    each other. Reads no weights.
    """
    config = qwen2_config(found.folder, found.config)
    for key in ("mask", "slack", "expand", "delete", "bos", "eos"):
        token = getattr(found.properties, f"{key}_token_id")
        if token is not None and token >= config.vocab_size:
            raise ModelError(
                f"{found.folder}: {key}_token_id: {token} is no token of a vocabulary of {config.vocab_size}"
            )
    if found.properties.corruption != NoiseKind.MASK:
        raise ModelError(f"{found.folder / 'infill.json'}: corruption: a masked-diffusion checkpoint needs 'mask'")
    _check_weights(found, weight_shapes(config), checkpoint_files.stored_tensors(found.folder))


def weight_shapes(config: Qwen2Config) -> dict[str, tuple[int, ...]]:
    """The shape of each weight by its name in the files; `lm_head.weight` may be missing where it is tied."""
    wide, inner = config.hidden_size, config.intermediate_size
    queries, keys = config.num_attention_heads * config.head_size, config.num_key_value_heads * config.head_size
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


def _check_weights(found: Checkpoint, wanted: dict[str, tuple[int, ...]], stored: dict[str, StoredTensor]) -> None:
    tied = bool(found.config.get("tie_word_embeddings"))
    for name, shape in wanted.items():
        if name not in stored:
            if tied and name == "lm_head.weight":
                continue
            raise ModelError(f"{found.name}: the weight {name} is missing; download the checkpoint again")
        if stored[name].shape != shape:
            raise ModelError(
                f"{found.folder / 'config.json'} describes {name} as {list(shape)}, but it is "
                f"{list(stored[name].shape)}; download the checkpoint again"
            )
    if unknown := [name for name in stored if name not in wanted and not name.endswith("rotary_emb.inv_freq")]:
        raise ModelError(
            f"{found.name}: {len(unknown)} of its weights (such as {min(unknown)[:100]}) are no part of a Qwen2 model "
            "of this shape; its config.json does not describe it"
        )

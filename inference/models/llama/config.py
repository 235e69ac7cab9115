"""Checks the config.json of a Llama-shaped model and the headers of its weights, before reading any weight.

Llama, Qwen2, Qwen3 and Granite have the same layers and names. Qwen2 adds a bias to queries, keys and values,
Qwen3 a norm to queries and keys; Granite multiplies embeddings, attention scores, what a layer adds, and logits.
"""

import math
from typing import Annotated

import msgspec
from msgspec import Meta

from inference.models import checkpoint_files
from inference.models.checkpoint import Checkpoint
from inference.models.checkpoint_files import NumHeads, NumLayers, VocabularySize, require
from inference.models.family import ModelError
from inference.models.infill_config import NotNegative

Size = Annotated[int, Meta(ge=2, le=1 << 20)]
Theta = Annotated[float, Meta(ge=1.0, le=1e12)]
"""Several times any published model's."""
_Factor = Annotated[float, Meta(gt=0, le=1e6)]

ROPE_FACTORS_TENSOR = "rope_freqs.weight"
"""What a GGUF file divides the frequencies by: Llama 3's scaling, computed when the file was made."""
_UNBIASED = ("llama", "qwen3", "granite")
_NORMED = ("qwen3",)
INTERLEAVED_IN_GGUF = ("llama", "granite")
"""Of these, a GGUF file has the rows of queries and keys in the order that `interleave_rotary` makes."""
_PART_OF_HEAD = "positions turn only a part of each head, which is not supported"


class _Rope(msgspec.Struct):
    """How positions are stretched. `type` is the older name of `rope_type`."""

    rope_theta: Theta | None = None
    rope_type: str | None = None
    type: str | None = None
    factor: _Factor = 1.0
    low_freq_factor: _Factor = 1.0
    high_freq_factor: _Factor = 4.0
    original_max_position_embeddings: Annotated[int, Meta(ge=1, le=1 << 24)] = 8192
    partial_rotary_factor: float = 1.0

    def __post_init__(self) -> None:
        """Raises ValueError."""
        is_known = self.kind in ("default", "linear", "llama3")
        require(is_known, f"{self.kind[:40]!r} is not supported; only plain, 'linear' and 'llama3' are")
        rises = self.kind != "llama3" or self.low_freq_factor < self.high_freq_factor
        require(rises, "low_freq_factor must be less than high_freq_factor")
        require(self.partial_rotary_factor == 1.0, _PART_OF_HEAD)

    @property
    def kind(self) -> str:
        return self.rope_type or self.type or "default"


class LlamaConfig(msgspec.Struct, frozen=True):
    """The part of config.json that describes the network. `rotary_size` is stated by GGUF files.

    `logits_scaling` divides the logits; without an `attention_multiplier` scores are divided by the root of the head's
    size.
    """

    vocab_size: VocabularySize
    hidden_size: Size
    intermediate_size: Size
    num_hidden_layers: NumLayers
    num_attention_heads: NumHeads
    num_key_value_heads: NumHeads | None = None
    model_type: str = "qwen2"
    rms_norm_eps: NotNegative = 1e-6
    tie_word_embeddings: bool = False
    hidden_act: str = "silu"
    use_sliding_window: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    head_dim: NumHeads | None = None
    rotary_size: int | None = None
    rope_theta: Theta | None = None
    partial_rotary_factor: float = 1.0
    rope_parameters: _Rope | None = None
    rope_scaling: _Rope | None = None
    max_position_embeddings: Annotated[int, Meta(ge=1, le=1 << 24)] = 4096
    embedding_multiplier: _Factor = 1.0
    attention_multiplier: _Factor | None = None
    residual_multiplier: _Factor = 1.0
    logits_scaling: _Factor = 1.0

    def __post_init__(self) -> None:
        """Raises ValueError if the values do not fit each other, or describe a network of another shape."""
        heads = self.num_attention_heads
        divides = heads % self.num_kv_heads == 0
        require(divides, f"num_key_value_heads: {self.num_kv_heads} does not divide num_attention_heads, {heads}")
        divides = bool(self.head_dim) or self.hidden_size % heads == 0
        require(divides, f"hidden_size: {heads} heads do not divide {self.hidden_size}")
        require(self.head_size % 2 == 0, f"head_dim: {self.head_size} is odd; positions turn pairs of numbers")
        require(self.hidden_act == "silu", f"hidden_act: {self.hidden_act[:40]!r} is not supported, only 'silu' is")
        require(not self.use_sliding_window, "use_sliding_window: windows are not supported")
        biased = (self.attention_bias and not self.has_bias) or self.mlp_bias
        require(not biased, f"attention_bias, mlp_bias: a {self.model_type[:40]!r} with biases is not supported")
        whole = self.partial_rotary_factor == 1.0 and self.rotary_size in (None, self.head_size)
        require(whole, _PART_OF_HEAD)

    @property
    def head_size(self) -> int:
        """h, of queries, keys and values alike."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def num_kv_heads(self) -> int:
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def has_bias(self) -> bool:
        return self.model_type not in _UNBIASED

    @property
    def has_head_norms(self) -> bool:
        return self.model_type in _NORMED

    @property
    def rope(self) -> _Rope:
        """How positions are stretched, wherever the file says so."""
        candidates = (self.rope_scaling, self.rope_parameters)
        return next((rope for rope in candidates if rope and rope.kind != "default"), _Rope())

    @property
    def inv_freq(self) -> list[float]:
        """The angle between neighbouring positions of each pair of a head's numbers, (h / 2,)."""
        own_theta = self.rope_parameters.rope_theta if self.rope_parameters else None
        theta = own_theta or self.rope_theta or 10_000.0
        size, rope = self.head_size, self.rope
        plain = [theta ** (-pair / size) for pair in range(0, size, 2)]
        if rope.kind == "linear":
            return [frequency / rope.factor for frequency in plain]
        return [_scale_frequency(frequency, rope) for frequency in plain] if rope.kind == "llama3" else plain


def _scale_frequency(frequency: float, rope: _Rope) -> float:
    """Llama 3's: slow turns are slowed down by the factor, fast ones stay, and those between change smoothly."""
    turns = rope.original_max_position_embeddings * frequency / (2 * math.pi)
    share = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    share = min(1.0, max(0.0, share))
    return share * frequency + (1 - share) * frequency / rope.factor


def llama_config(checkpoint: Checkpoint) -> LlamaConfig:
    """The network that a checkpoint describes. Raises ModelError if it makes no sense or is of another shape."""
    return checkpoint_files.parse_struct(checkpoint.config_file, checkpoint.config, LlamaConfig)


def weight_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """The shape of each weight by its name in the files.

    `lm_head.weight` may be missing if it is tied, and `ROPE_FACTORS_TENSOR` always.
    """
    wide = config.hidden_size
    inner = config.intermediate_size
    queries = config.num_attention_heads * config.head_size
    keys = config.num_kv_heads * config.head_size
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (wide,),
        "post_attention_layernorm.weight": (wide,),
        "mlp.gate_proj.weight": (inner, wide),
        "mlp.up_proj.weight": (inner, wide),
        "mlp.down_proj.weight": (wide, inner),
        "self_attn.o_proj.weight": (wide, queries),
    }
    for name, rows in (("q", queries), ("k", keys), ("v", keys)):
        layer[f"self_attn.{name}_proj.weight"] = rows, wide
        if config.has_bias:
            layer[f"self_attn.{name}_proj.bias"] = (rows,)
        if config.has_head_norms and name != "v":
            layer[f"self_attn.{name}_norm.weight"] = (config.head_size,)
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config.vocab_size, wide)}
    for layer_index in range(config.num_hidden_layers):
        shapes |= {f"model.layers.{layer_index}.{name}": shape for name, shape in layer.items()}
    shapes |= {"model.norm.weight": (wide,), "lm_head.weight": (config.vocab_size, wide)}
    return shapes | {ROPE_FACTORS_TENSOR: (config.head_size // 2,)}


def checked_config(checkpoint: Checkpoint) -> LlamaConfig:
    """The network that a checkpoint describes. Raises ModelError unless its files hold the weights of that."""
    config = llama_config(checkpoint)
    expected = weight_shapes(config)
    stored = checkpoint.shapes()
    for name, shape in expected.items():
        if name not in stored:
            if (config.tie_word_embeddings and name == "lm_head.weight") or name == ROPE_FACTORS_TENSOR:
                continue
            raise ModelError(f"{checkpoint.name}: the weight {name} is missing; download the checkpoint again")
        if stored[name] != shape:
            raise ModelError(
                f"{checkpoint.config_file} describes {name} as {list(shape)}, but it is {list(stored[name])}; "
                "download the checkpoint again"
            )
    if unknown := [name for name in stored if name not in expected and not name.endswith("rotary_emb.inv_freq")]:
        raise ModelError(
            f"{checkpoint.name}: {len(unknown)} of its weights (such as {min(unknown)[:100]}) are no part of a "
            f"'{checkpoint.model_type}' model of this shape; {checkpoint.config_file.name} does not describe it"
        )
    return config

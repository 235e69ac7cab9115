"""Maps a GGUF file's keys and tensors to config.json's keys and the hub's weight names, by architecture."""

import re
import struct
from collections.abc import Mapping
from math import prod
from typing import Any, Final

from inference.models.family import ModelError
from inference.models.gguf.header import DOWNLOAD_AGAIN, GgufFile, GgufTensor, open_file, read_bytes

ARCHITECTURE_KEY = "general.architecture"
_DIFFUSION = "diffusion-gemma"
ARCHITECTURES = ("qwen2", "qwen3", "llama", "granite", _DIFFUSION)
"""The architectures whose weights are known here. `qwen2` also covers Qwen2.5 and Qwen2.5-Coder."""

_EMBEDDING = "token_embd.weight"
_ROPE_FACTORS = "rope_freqs.weight"
_PLAIN = {
    _EMBEDDING: "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_PARTS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""The hub's names in a layer, by ggml's. In a file of `INTERLEAVED_IN_GGUF` the rows of queries and keys have another
order than on the hub: the numbers that a position turns together are neighbours.
"""
_DIFFUSION_PLAIN = {
    _EMBEDDING: "model.decoder.embed_tokens.weight",
    "output_norm.weight": "model.decoder.norm.weight",
} | {
    f"self_cond_{part}.weight": f"model.decoder.self_conditioning.{hub}.weight"
    for part, hub in (("pre_norm", "pre_norm"), ("gate", "gate_proj"), ("up", "up_proj"), ("down", "down_proj"))
}
_DIFFUSION_PARTS = {f"{name}.weight": f"{_PARTS[name]}.weight" for name in _PARTS if name != "ffn_norm"} | {
    "post_attention_norm.weight": "post_attention_layernorm.weight",
    "ffn_norm.weight": "pre_feedforward_layernorm.weight",
    "post_ffw_norm.weight": "post_feedforward_layernorm.weight",
    "post_ffw_norm_1.weight": "post_feedforward_layernorm_1.weight",
    "pre_ffw_norm_2.weight": "pre_feedforward_layernorm_2.weight",
    "post_ffw_norm_2.weight": "post_feedforward_layernorm_2.weight",
    "ffn_gate_inp.weight": "router.proj.weight",
    "ffn_gate_inp.scale": "router.scale",
    "ffn_down_exps.scale": "router.per_expert_scale",
    "ffn_gate_up_exps.weight": "experts.gate_up_proj",
    "ffn_down_exps.weight": "experts.down_proj",
    "layer_output_scale.weight": "layer_scalar",
}
_ENCODER_SCALES = ("enc_layer_output_scale.weight", "enc_layer_out_scale.weight")
"""The encoder's own number of each layer; the second name is that of the first converters."""
_OF_LAYER = re.compile(r"blk\.(0|[1-9]\d{0,4})\.(\w+\.\w+)")

_KEYS = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
}
_OPTIONAL = {
    "num_key_value_heads": "attention.head_count_kv",
    "rope_theta": "rope.freq_base",
    "head_dim": "attention.key_length",
    "rotary_size": "rope.dimension_count",
    "embedding_multiplier": "embedding_scale",
    "attention_multiplier": "attention.scale",
    "residual_multiplier": "residual_scale",
    "logits_scaling": "logit_scale",
}
_DIFFUSION_KEYS = _KEYS | {
    "num_experts": "expert_count",
    "top_k_experts": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
    "sliding_window": "attention.sliding_window",
    "global_head_dim": "attention.key_length",
    "head_dim": "attention.key_length_swa",
    "final_logit_softcapping": "final_logit_softcapping",
}
_SAMPLER = {
    "max_denoising_steps": "max_steps",
    "t_min": "t_min",
    "t_max": "t_max",
    "stability_threshold": "stability_threshold",
    "confidence_threshold": "confidence_threshold",
}
_TOKENS = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding", "mask_token_id": "mask"}
_MAX_FACTORS: Final = 4096
_NOT_ROTATED: Final = 1e10
"""The least divisor of the frequency of a pair of dimensions without rotary embedding."""


def hub_config(file: GgufFile) -> dict[str, Any]:
    """The equivalent of config.json. The family checks the ranges. Raises ModelError if something is missing."""
    kind = str(file.metadata.get(ARCHITECTURE_KEY, ""))
    if kind not in ARCHITECTURES:
        usable = " or ".join(ARCHITECTURES)
        raise ModelError(f"{file.path}: a GGUF file of architecture {kind[:40]!r} cannot fill holes; {usable} can")
    if _EMBEDDING not in file.tensors:
        raise ModelError(f"{file.path}: the weight {_EMBEDDING} is missing; {DOWNLOAD_AGAIN}")
    tokens = {name: f"tokenizer.ggml.{key}_token_id" for name, key in _TOKENS.items()}
    known = {name: file.metadata[key] for name, key in tokens.items() if key in file.metadata}
    known["vocab_size"] = file.tensors[_EMBEDDING].shape[0]
    if kind == _DIFFUSION:
        return _diffusion_config(file, known)
    config: dict[str, Any] = {"model_type": kind, "hidden_act": "silu"} | known
    config |= {name: _number(file, f"{kind}.{key}") for name, key in _KEYS.items()}
    optional = {name: f"{kind}.{key}" for name, key in _OPTIONAL.items()}
    config |= {name: file.metadata[key] for name, key in optional.items() if key in file.metadata}
    config["tie_word_embeddings"] = "output.weight" not in file.tensors
    scaling = file.metadata.get(f"{kind}.rope.scaling.type", "none")
    if scaling != "none":
        factor = _number(file, f"{kind}.rope.scaling.factor", 1.0)
        config["rope_scaling"] = {"rope_type": scaling, "factor": factor}
    return config


def _diffusion_config(file: GgufFile, known: Mapping[str, Any]) -> dict[str, Any]:
    """The equivalent of DiffusionGemma's config.json, with generation_config.json as `generation_config`."""
    if not file.tensors.keys() >= {name for name in _DIFFUSION_PLAIN if name.startswith("self_cond")}:
        raise ModelError(f"{file.path}: an early converter left out its self-conditioning; download a newer file")
    text = dict(known) | {name: _number(file, f"{_DIFFUSION}.{key}") for name, key in _DIFFUSION_KEYS.items()}
    sliding = file.numbers(f"{_DIFFUSION}.attention.sliding_window_pattern")
    text["layer_types"] = ["sliding_attention" if is_sliding else "full_attention" for is_sliding in sliding]
    heads = file.numbers(f"{_DIFFUSION}.attention.head_count_kv")
    if not heads or len(heads) != len(sliding):
        raise ModelError(
            f"{file.path}: {_DIFFUSION}.attention.head_count_kv does not name each layer's heads; {DOWNLOAD_AGAIN}"
        )
    pairs = zip(heads, sliding, strict=True)
    by_kind = {bool(is_sliding): int(count) for count, is_sliding in pairs}
    text |= {"num_key_value_heads": by_kind.get(True), "num_global_key_value_heads": by_kind.get(False)}
    theta, theta_sliding = (_number(file, f"{_DIFFUSION}.rope.freq_base{end}", 1e4) for end in ("", "_swa"))
    full = {"rope_type": "proportional", "rope_theta": theta, "partial_rotary_factor": _rotary_share(file)}
    text["rope_parameters"] = {
        "full_attention": full,
        "sliding_attention": {"rope_type": "default", "rope_theta": theta_sliding},
    }
    settings = {name: file.metadata.get(f"diffusion.eb_{key}") for name, key in _SAMPLER.items()}
    generation: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    if (bound := file.metadata.get("diffusion.eb_entropy_bound")) is not None:
        generation["sampler_config"] = {"entropy_bound": bound}
    config = {"model_type": "diffusion_gemma", "text_config": text, "generation_config": generation}
    return config | {"canvas_length": file.metadata.get("diffusion.canvas_length")}


def _rotary_share(file: GgufFile) -> float:
    """The share of a full-attention layer's head with rotary embedding: the pairs whose frequency divisor is small."""
    factors = file.tensors.get(_ROPE_FACTORS)
    if factors is None:
        return 0.25
    if factors.type_.name != "F32" or prod(factors.shape) != factors.shape[0] or factors.shape[0] > _MAX_FACTORS:
        raise ModelError(f"{file.path}: {_ROPE_FACTORS} is no list of at most {_MAX_FACTORS} numbers; {DOWNLOAD_AGAIN}")
    with open_file(factors.path) as stream:
        values = struct.unpack(f"<{factors.shape[0]}f", read_bytes(stream, factors.begin, factors.end))
    turned = [value for value in values if value < _NOT_ROTATED]
    return len(turned) / len(values)


def hub_tensors(file: GgufFile) -> dict[str, GgufTensor]:
    """The tensors by the hub's names; an unknown one keeps its own. Raises ModelError if two have the same."""
    named: dict[str, str] = {}
    is_diffusion = file.metadata.get(ARCHITECTURE_KEY) == _DIFFUSION
    for name in file.tensors:
        hub_name = _diffusion_name(name) if is_diffusion else _hub_name(name)
        if (first := named.setdefault(hub_name, name)) != name:
            raise ModelError(f"{file.path}: {first} and {name} are the same weight; {DOWNLOAD_AGAIN}")
    return {hub_name: file.tensors[name] for hub_name, name in named.items()}


def _hub_name(name: str) -> str:
    match = _OF_LAYER.fullmatch(name)
    part, _, kind = match[2].partition(".") if match else ("", "", "")
    if match and part in _PARTS and kind in ("weight", "bias"):
        return f"model.layers.{match[1]}.{_PARTS[part]}.{kind}"
    return _PLAIN.get(name, name)


def _diffusion_name(name: str) -> str:
    match = _OF_LAYER.fullmatch(name)
    if match and match[2] in _ENCODER_SCALES:
        return f"model.encoder.language_model.layers.{match[1]}.layer_scalar"
    if match and match[2] in _DIFFUSION_PARTS:
        return f"model.decoder.layers.{match[1]}.{_DIFFUSION_PARTS[match[2]]}"
    return _DIFFUSION_PLAIN.get(name, name)


def _number(file: GgufFile, key: str, default: float | None = None) -> float:
    value = file.metadata.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModelError(f"{file.path}: {key} is {'missing' if value is None else 'no number'}; {DOWNLOAD_AGAIN}")
    return value

"""A GGUF file's description of its model, translated to config.json and the hub's tensor names."""

import re
from typing import Any

from inference.models.family import ModelError
from inference.models.gguf import header
from inference.models.gguf.header import GgufFile, GgufTensor

ARCHITECTURES = ("qwen2", "qwen3", "llama")
"""The architectures whose weights are known here. `qwen2` also covers Qwen2.5 and Qwen2.5-Coder."""

_PLAIN = {
    "token_embd.weight": "model.embed_tokens.weight",
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
"""The hub's names in a layer, by ggml's. In a file of the architecture `llama` the rows of queries and keys have
another order than on the hub: the numbers that a position turns together are neighbours.
"""
_OF_LAYER = re.compile(r"blk\.(0|[1-9]\d{0,4})\.(\w+)\.(weight|bias)")

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
}
_TOKENS = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding", "mask_token_id": "mask"}


def config(file: GgufFile) -> dict[str, Any]:
    """The equivalent of config.json. The family checks the ranges. Raises ModelError if something is missing."""
    kind = str(file.metadata.get(header.ARCHITECTURE, ""))
    if kind not in ARCHITECTURES:
        known = " or ".join(ARCHITECTURES)
        raise ModelError(f"{file.path}: a GGUF file of architecture {kind[:40]!r} cannot fill holes; {known} can")
    if int(_number(file, "split.count", 1)) > 1:
        raise ModelError(f"{file.path} is one of several parts of a model; download it as a single file, or merge them")
    if "token_embd.weight" not in file.tensors:
        raise ModelError(f"{file.path}: the weight token_embd.weight is missing; download it again")
    found: dict[str, Any] = {"model_type": kind, "hidden_act": "silu"}
    found |= {name: _number(file, f"{kind}.{key}") for name, key in _KEYS.items()}
    found |= {
        name: file.metadata[full] for name, key in _OPTIONAL.items() if (full := f"{kind}.{key}") in file.metadata
    }
    stated = {name: file.metadata.get(f"tokenizer.ggml.{key}_token_id") for name, key in _TOKENS.items()}
    found |= {name: token for name, token in stated.items() if token is not None}
    found["vocab_size"] = file.tensors["token_embd.weight"].shape[0]
    found["tie_word_embeddings"] = "output.weight" not in file.tensors
    scaling = file.metadata.get(f"{kind}.rope.scaling.type", "none")
    if scaling == "none":
        return found
    return {
        **found,
        "rope_scaling": {"rope_type": scaling, "factor": _number(file, f"{kind}.rope.scaling.factor", 1.0)},
    }


def stored_tensors(file: GgufFile) -> dict[str, GgufTensor]:
    """The tensors by the hub's names; an unknown one keeps its own. Raises ModelError if two have one name there."""
    named: dict[str, str] = {}
    for name in file.tensors:
        if (other := named.setdefault(_hub_name(name), name)) != name:
            raise ModelError(f"{file.path}: {other} and {name} are the same weight; download it again")
    return {hub_name: file.tensors[name] for hub_name, name in named.items()}


def _hub_name(name: str) -> str:
    found = _OF_LAYER.fullmatch(name)
    if found and found[2] in _PARTS:
        return f"model.layers.{found[1]}.{_PARTS[found[2]]}.{found[3]}"
    return _PLAIN.get(name, name)


def _number(file: GgufFile, key: str, default: float | None = None) -> float:
    value = file.metadata.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModelError(f"{file.path}: {key} is {'missing' if value is None else 'no number'}; download it again")
    return value

"""What a GGUF file states of its model, in the words of config.json and of the hub's tensor names."""

import re
from typing import Any

from inference.models.family import ModelError
from inference.models.gguf import header
from inference.models.gguf.header import GgufFile, StoredTensor

ARCHITECTURES = ("qwen2",)
"""Those whose weights and tokenizer are known here. `qwen2` is also that of Qwen2.5 and Qwen2.5-Coder."""

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
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""Of a layer, by the names that ggml gives them, the hub's."""
_OF_LAYER = re.compile(r"blk\.(0|[1-9]\d{0,4})\.(\w+)\.(weight|bias)")

_KEYS = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
}
_OPTIONAL = {"rope_theta": "rope.freq_base", "head_dim": "attention.key_length"}
_TOKENS = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding", "mask_token_id": "mask"}


def architecture(file: GgufFile) -> str:
    """What the file calls its architecture; "" where it says nothing."""
    return str(file.metadata.get(header.ARCHITECTURE, ""))


def config(file: GgufFile) -> dict[str, Any]:
    """What config.json would hold. Ranges are the family's to check. Raises ModelError where something is missing."""
    kind = architecture(file)
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
    return found if scaling == "none" else {**found, "rope_scaling": {"rope_type": scaling}}


def stored_tensors(file: GgufFile) -> dict[str, StoredTensor]:
    """The tensors by the hub's names; one that is not known keeps its own."""
    return {_hub_name(name): tensor for name, tensor in file.tensors.items()}


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

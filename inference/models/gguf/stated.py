"""A GGUF file's description of its model, translated to config.json and the hub's tensor names; its tokenizer."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

from inference.models.family import ModelError
from inference.models.gguf import header
from inference.models.gguf.file import GgufFile, GgufTensor

ARCHITECTURES = ("qwen2",)
"""The architectures whose weights and tokenizer are known here. `qwen2` also covers Qwen2.5 and Qwen2.5-Coder."""

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
"""The hub's names in a layer, by ggml's."""
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
    return found if scaling == "none" else {**found, "rope_scaling": {"rope_type": scaling}}


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


_QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_CONTROL = 3
_USER_DEFINED = 4


def qwen2_tokenizer(vocabulary: Mapping[str, int], merges: Sequence[tuple[str, ...]]) -> Tokenizer:
    """Qwen2's: byte-level, without a normaliser, so that no byte changes. Raises Exception if they do not fit."""
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))  # type: ignore[arg-type]
    split = pre_tokenizers.Split(Regex(_QWEN2_SPLIT), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    return made


def tokenizer(file: GgufFile) -> Tokenizer:
    """The tokenizer of a file. Raises ModelError."""
    kind, split = (str(file.metadata.get(f"tokenizer.ggml.{key}", ""))[:40] for key in ("model", "pre"))
    if (kind, split) != ("gpt2", "qwen2"):
        raise ModelError(f"{file.path}: its tokenizer ({kind!r}, {split!r}) is not known; Qwen2's ('gpt2', 'qwen2') is")
    tokens = file.strings("tokenizer.ggml.tokens")
    types = file.numbers("tokenizer.ggml.token_type")
    merges = [tuple(line.split(" ")) for line in file.strings("tokenizer.ggml.merges")]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    if not tokens or len(vocabulary) < len(tokens) or len(types) != len(tokens):
        raise ModelError(f"{file.path}: its vocabulary is empty, has a token twice or lacks types; download it again")
    if any(len(pair) != 2 for pair in merges):
        raise ModelError(f"{file.path}: its merges are no pairs of tokens; download it again")
    try:
        made = qwen2_tokenizer(vocabulary, merges)
    except Exception as error:  # the library raises bare Exception for every problem
        raise ModelError(f"{file.path}: its tokens and merges make no tokenizer: {error}; download it again") from error
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    named = [(token, type_) for token, type_ in zip(tokens, types, strict=True) if type_ in (_CONTROL, _USER_DEFINED)]
    made.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token, type_ in named if type_ == _CONTROL]
    )
    made.add_tokens(
        [AddedToken(token, special=False, normalized=False) for token, type_ in named if type_ == _USER_DEFINED]
    )
    return made

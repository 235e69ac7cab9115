"""Writes a checkpoint folder of the conventions `fim` as a GGUF file, for llama.cpp: to_gguf.py FOLDER FILE.gguf

llama.cpp's own converter knows a tokenizer by a hash over its published vocabulary, and ours is none of those; its
units are Qwen2's, which is what the file says. Needs the package `gguf`.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
from safetensors.torch import load_file

Stored = tuple[np.ndarray, gguf.GGMLQuantizationType | None]
"""The contents of a tensor, and its type if that is not what the array says."""


def main(folder: Path, file: Path, stored: Callable[[str, np.ndarray], Stored] = lambda _name, it: (it, None)) -> None:
    """In float32, so that it computes what the folder's weights do, or as `stored` makes it of a name and weights."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    kind = config["model_type"]
    writer = gguf.GGUFWriter(file, kind)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[kind.upper()], config["num_hidden_layers"])
    _shape(writer, config, folder)
    _tokenizer(writer, folder)
    for name, weight in load_file(folder / "model.safetensors").items():
        values = weight.float().numpy().astype(np.float32)
        if kind in ("llama", "granite") and name.endswith(("q_proj.weight", "k_proj.weight")):
            values = _neighbours(values, config)
        content, type_ = stored(name, values)
        writer.add_tensor(names.get_name(name, (".weight", ".bias")), content, raw_dtype=type_)
    finish(writer)


def finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _neighbours(values: np.ndarray, config: dict[str, int]) -> np.ndarray:
    """As llama.cpp's converter: the two numbers that a position turns together become neighbours."""
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    heads = values.reshape(-1, 2, size // 2, values.shape[1])
    return np.ascontiguousarray(heads.swapaxes(1, 2).reshape(values.shape))


def _factors(folder: Path, base: float, size: int) -> np.ndarray:
    """Llama 3's scaling: by how much each pair of numbers turns more slowly."""
    from transformers import AutoConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    turns, _ = ROPE_INIT_FUNCTIONS["llama3"](AutoConfig.from_pretrained(folder), "cpu")
    return (base ** -(np.arange(0, size, 2) / size) / turns.numpy()).astype(np.float32)


def _shape(writer: gguf.GGUFWriter, config: dict[str, object], folder: Path) -> None:
    rope = config["rope_parameters"]
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "llama3":
        size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        writer.add_tensor("rope_freqs.weight", _factors(folder, rope["rope_theta"], size))
    if config.get("head_dim"):
        writer.add_key_length(config["head_dim"])
    if config["model_type"] == "granite":
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    writer.add_name("infill-ls fim")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def _tokenizer(writer: gguf.GGUFWriter, folder: Path) -> None:
    stated = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    special = {one["id"]: one["content"] for one in stated["added_tokens"]}
    by_id = {id_: piece for piece, id_ in stated["model"]["vocab"].items()} | special
    kinds = [gguf.TokenType.CONTROL if id_ in special else gguf.TokenType.NORMAL for id_ in range(len(by_id))]
    ids = {name: id_ for id_, name in special.items()}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([by_id[id_] for id_ in range(len(by_id))])
    writer.add_token_types(kinds)
    writer.add_token_merges([one if isinstance(one, str) else " ".join(one) for one in stated["model"]["merges"]])
    writer.add_eos_token_id(ids["<|endoftext|>"])
    writer.add_pad_token_id(ids["<|fim_pad|>"])
    writer.add_add_bos_token(False)
    for kind in ("prefix", "suffix", "middle"):
        writer.add_uint32(f"tokenizer.ggml.fim_{kind[:3]}_token_id", ids[f"<|fim_{kind}|>"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

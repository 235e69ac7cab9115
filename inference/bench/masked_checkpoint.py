"""Writes a masked-diffusion checkpoint of a published shape with made-up weights, to measure what it takes.

Its tokenizer has a token for each byte, and others up to the full vocabulary, so a text has as many tokens as bytes.
Where weights are zero the files are sparse and take no disk.
"""

import json
import struct
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import msgspec
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from inference.models.qwen2 import Qwen2Config, weight_shapes

SHAPES: dict[str, dict[str, Any]] = {
    "0.5b": {
        "vocab_size": 151_936,
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    },
    "7b": {
        "vocab_size": 152_064,
        "hidden_size": 3584,
        "intermediate_size": 18_944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "tie_word_embeddings": False,
    },
    "small": {
        "vocab_size": 1024,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    },
}
"""Open-dCoder's, Dream-Coder's and DreamOn's, and one for every machine."""

_MASK = "<M>"
_SPREAD = 0.02
_CHUNK = 1 << 24


def write(folder: Path, shape: str, *, dense: bool) -> None:
    """The folder; without `dense` all matrices but the first rows of the embedding are zero."""
    config = SHAPES[shape] | {"rms_norm_eps": 1e-6, "rope_theta": 1_000_000.0, "dtype": "bfloat16"}
    config |= {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}
    (folder / "config.json").write_text(json.dumps(config))
    _tokenizer(config["vocab_size"] - 200).save(str(folder / "tokenizer.json"))
    shapes = weight_shapes(msgspec.convert(config, Qwen2Config))
    if config["tie_word_embeddings"]:
        del shapes["lm_head.weight"]
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, size in shapes.items():
        header[name] = {"dtype": "BF16", "shape": size, "data_offsets": [end, end := end + 2 * prod(size)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    generator = torch.Generator().manual_seed(0)
    with (folder / "model.safetensors").open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        start = stream.tell()
        stream.truncate(start + end)
        for name, size in shapes.items():
            stream.seek(start + header[name]["data_offsets"][0])
            for values in _values(name, prod(size), dense, generator):
                stream.write(values.bfloat16().view(torch.uint8).numpy().tobytes())


def _values(name: str, count: int, dense: bool, generator: torch.Generator) -> Iterator[Tensor]:
    """The first numbers of a weight; those that are not written stay zero."""
    if name.endswith("norm.weight"):
        yield torch.ones(count)
    elif dense or "embed_tokens" in name:
        for first in range(0, count if dense else min(count, _CHUNK), _CHUNK):
            yield torch.randn(min(_CHUNK, count - first), generator=generator) * _SPREAD


def _tokenizer(size: int) -> Tokenizer:
    names = sorted(pre_tokenizers.ByteLevel.alphabet())
    names += [f"filler{number}" for number in range(len(names), size - 1)]
    tokenizer = Tokenizer(models.BPE(vocab={name: id_ for id_, name in enumerate(names)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([_MASK])
    return tokenizer

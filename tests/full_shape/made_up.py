"""Writes a checkpoint folder of the released shape: full shards, random weights, Gemma's kind of tokenizer.

If weights are zero, the files are sparse and take no disk space. Norms, scalars, routers and the embeddings of the
tokens that text is made of are always there, so that rows are told apart and go to all of the experts.
"""

import json
import struct
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from inference.bench.latency import RELEASED_TEXT_CONFIG, RandomWeights, diffusion_gemma_config
from inference.models.diffusion_gemma.weights import empty_model

TWIN = Path(__file__).parents[1] / "data" / "twin"
SMALL = {
    "vocab_size": 4096,
    "hidden_size": 256,
    "intermediate_size": 256,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "global_head_dim": 128,
    "num_global_key_value_heads": 1,
    "num_experts": 64,
    "moe_intermediate_size": 512,
}
"""A shape for every machine. As in the released one most weights are experts: 50 MB of a layer in bfloat16."""
SHARD_BYTES = 5_000_000_000
FILLED_ROWS = 4096
"""Rows of the embedding that are never zero: the tokens of the twin's tokenizer."""
_DENSE_ELEMENTS = 1_000_000
"""Tensors up to this size are never zero: all but embeddings, experts and projections."""


def write(folder: Path, layers: int, *, dense: bool, **shape: int) -> None:
    """The folder; with `dense` every weight is random, 2.2 GB for a layer and for the embedding. `shape` changes it.

    At least two layers: a sliding one and a full one, which is always the last.
    """
    config = diffusion_gemma_config(RELEASED_TEXT_CONFIG | {"num_hidden_layers": layers} | shape)
    config.dtype = torch.bfloat16
    config.architectures = ["DiffusionGemmaForBlockDiffusion"]
    config.save_pretrained(folder)
    _write_tokenizer(folder / "tokenizer.json", config.text_config.vocab_size)
    (folder / "generation_config.json").write_bytes((TWIN / "generation_config.json").read_bytes())
    weights = RandomWeights(empty_model(config), torch.device("cpu"), torch.bfloat16)
    shards = list(_shards({name: size for name, size in weights.shapes.items() if _is_stored(name)}))
    files = [f"model-{number:05}-of-{len(shards):05}.safetensors" for number in range(1, len(shards) + 1)]
    for file, shard in zip(files, shards, strict=True):
        _write_shard(folder / file, shard, weights, dense)
    index = {name: file for file, shard in zip(files, shards, strict=True) for name in shard}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


def _is_stored(name: str) -> bool:
    """Whether the encoder does not share it with the decoder."""
    return name.startswith("model.decoder.") or ("encoder.language_model" in name and "layer_scalar" in name)


def _shards(shapes: dict[str, tuple[int, ...]]) -> Iterator[dict[str, tuple[int, ...]]]:
    shard: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        if shard and sum(prod(one) for one in (*shard.values(), shape)) * 2 > SHARD_BYTES:
            yield shard
            shard = {}
        shard[name] = shape
    yield shard


def _write_shard(file: Path, shapes: dict[str, tuple[int, ...]], weights: RandomWeights, dense: bool) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end := end + 2 * prod(shape)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        start = stream.tell()
        stream.truncate(start + end)
        for name, shape in shapes.items():
            stream.seek(start + header[name]["data_offsets"][0])
            for rows in _values(name, shape, weights, dense):
                stream.write(rows.view(torch.uint8).numpy().tobytes())


def _values(name: str, shape: tuple[int, ...], weights: RandomWeights, dense: bool) -> Iterator[Tensor]:
    """Writes the first rows of a weight; the rest stays zero."""
    if dense or prod(shape) <= _DENSE_ELEMENTS:
        yield from (rows for _, rows in weights.blocks(name, shape))
    elif "embed_tokens" in name:
        yield from (rows for _, rows in weights.blocks(name, (min(shape[0], FILLED_ROWS), *shape[1:])))


def _write_tokenizer(file: Path, vocabulary_size: int) -> None:
    tokenizer = json.loads((TWIN / "tokenizer.json").read_text("utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    for number in range(len(vocabulary), vocabulary_size):
        vocabulary[f"▁filler{number}"] = number
    file.write_text(json.dumps(tokenizer), "utf-8")

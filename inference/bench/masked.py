"""`infill-ls bench masked`: memory of a masked-diffusion model of a published shape, and its time to fill a line.

Its weights are random, so it says nothing about quality. Every fill has the same text around it except for the typed
characters; the first one has no earlier fill to reuse. It prints one JSON object as its last line.
"""

import argparse
import json
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import msgspec
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from inference.bench import latency_timing
from inference.engine import Engine
from inference.messages import Done, Hole, InfillRequest, Text
from inference.models import registry
from inference.models.family import ModelError
from inference.models.qwen2 import Qwen2Config, weight_shapes

_LINE = "    total = {word}(first, second)  # of both\n"
_WORDS = ("add", "sub", "mul", "div")
"""One for each way to fill, so that none knows another's text."""

_LATER_FILLS = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints; returns the exit status."""
    args = argument_parser().parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="infill-ls-") as folder:
        if args.model is None:
            write(Path(folder), args.shape, dense=not args.sparse)
        try:
            result = measure(args.model or folder, args)
        except ModelError as error:
            print(f"infill-ls: {error}", file=sys.stderr)
            return 2
    print(json.dumps(result))
    return 0


def argument_parser() -> argparse.ArgumentParser:
    """The arguments of the benchmark."""
    parser = argparse.ArgumentParser(prog="infill-ls bench masked")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="0.5b", help="made-up weights")
    parser.add_argument("--model", metavar="ID_OR_FOLDER", help="a checkpoint instead")
    parser.add_argument("--sparse", action="store_true", help="most made-up weights are zero and take no disk")
    parser.add_argument("--device", metavar="NAME")
    parser.add_argument("--dtype", metavar="NAME")
    parser.add_argument("--context-tokens", type=int, default=512, metavar="N", help="tokens around the hole")
    parser.add_argument("--tokens", type=int, default=8, metavar="N", help="tokens of the line")
    parser.add_argument("--skip-exact", action="store_true", help="only with the approximate cache")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    return parser


def measure(model: str, args: argparse.Namespace) -> dict[str, Any]:
    """Memory, then a row for each way to fill."""
    began = time.perf_counter()
    family = registry.load(model, device=args.device, dtype=args.dtype)
    engine = Engine(family)
    result: dict[str, Any] = {"shape": args.shape if args.model is None else model, "dtype": family.dtype}
    result |= {"device": engine.device, "context_tokens": args.context_tokens, "tokens": args.tokens}
    result |= {"load_s": time.perf_counter() - began, "loaded_bytes": latency_timing.peak_bytes(family.device)}
    if not args.json:
        print(f"{family.dtype}: loaded {result['loaded_bytes'] / 1e9:.2f} GB in {result['load_s']:.1f} s", flush=True)
    result["fills"] = []
    ways = [(exact, one) for exact in (False, True) if not (exact and args.skip_exact) for one in (True, False)]
    for word, (exact, one_length) in zip(_WORDS, ways, strict=False):
        family.properties = msgspec.structs.replace(family.properties, exact=exact)  # type: ignore[misc]
        row = {"exact": exact, "lengths": "known" if one_length else "tried", **_fills(engine, args, one_length, word)}
        result["fills"].append(row)
        if not args.json:
            print(_line(row), flush=True)
    return result | {"peak_bytes": latency_timing.peak_bytes(family.device)}


def _fills(engine: Engine, args: argparse.Namespace, one_length: bool, word: str) -> dict[str, Any]:
    """The first fill at a new place, and those after each further character."""
    half = args.context_tokens // 2
    line = _LINE.format(word=word)
    text = line * (1 + half // len(line))
    hole = Hole(min_tokens=args.tokens if one_length else 1, max_tokens=args.tokens, single_line=True)
    times, steps, reused = [], 0, 0
    for typed in range(1 + _LATER_FILLS):
        segments = (Text(text[:half] + "x = f("[:typed]), hole, Text("\n" + text[: args.context_tokens - half - 1]))
        request = InfillRequest("r", segments, quick=True, seed=0)
        began = time.perf_counter()
        for event in engine.infill(request):
            if isinstance(event, Done):
                steps, reused = event.stats.steps, event.stats.reused_tokens
        latency_timing.wait(engine.loaded.family.device)
        times.append((time.perf_counter() - began) * 1000)
    return {"first_ms": times[0], "later_ms": statistics.median(times[1:]), "steps": steps, "reused_tokens": reused}


def _line(row: dict[str, Any]) -> str:
    kind = "exact " if row["exact"] else "cached"
    return (
        f"{kind}, length {row['lengths']}: first {row['first_ms']:8.0f} ms, later {row['later_ms']:8.0f} ms, "
        f"{row['steps']} steps, {row['reused_tokens']} tokens reused"
    )


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
    """Writes the first numbers of a weight; the rest stays zero."""
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


if __name__ == "__main__":
    sys.exit(main())

"""`infill-ls bench latency`: our engine against other ways to run the same weights, in one run.

All sections measure one network, a checkpoint's or one of random weights, on random tokens, which take as long as code;
no stopping rule applies. It prints one JSON object as its last line. The figures are medians; compare ratios, not
machines.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import psutil
import torch

from inference.engine.canvas.batch import CanvasBatch
from inference.engine.canvas.layout import OPEN, Row
from inference.engine.search.denoise import Denoising, MaskNoise, Noise, UniformNoise
from inference.models import devices, registry
from inference.models.diffusion_gemma import recorded
from inference.models.diffusion_gemma.adapter import DiffusionGemma, EncodedContext
from inference.models.diffusion_gemma.config import NO_VISION
from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.prefix_cache import PrefixCache
from inference.models.family import ModelError
from inference.models.properties import Properties, SamplerSettings

_PREFIXES = (1024, 8192)
_FLOOR_CANVAS = 256
STEPS = 8
LINE_TOKENS = 8
SUFFIX_TOKENS = 16
_NEVER_STOP = {"stability": 1, "confidence": 1e-30}
RELEASED_TEXT_CONFIG: dict[str, Any] = {
    "vocab_size": 262_144,
    "hidden_size": 2816,
    "intermediate_size": 2112,
    "num_hidden_layers": 30,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 256,
    "global_head_dim": 512,
    "num_global_key_value_heads": 2,
    "sliding_window": 1024,
    "num_experts": 128,
    "top_k_experts": 8,
    "moe_intermediate_size": 704,
    "max_position_embeddings": 262_144,
}
"""DiffusionGemma 26B-A4B, layer pattern 5 sliding : 1 full."""

_SMALL_TEXT_CONFIG = RELEASED_TEXT_CONFIG | {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "global_head_dim": 32,
    "num_global_key_value_heads": 1,
    "num_experts": 8,
    "top_k_experts": 2,
    "moe_intermediate_size": 32,
}
"""The same layer pattern, small enough for tests on any machine."""

RANDOM_SHAPES = {"26b": RELEASED_TEXT_CONFIG, "small": _SMALL_TEXT_CONFIG}


@dataclass(frozen=True)
class MeasuredNetwork:
    """A network under measurement."""

    name: str
    network: Network
    properties: Properties


def from_checkpoint(model: str, device: str | None, dtype: str | None) -> MeasuredNetwork:
    """The network of a checkpoint. Raises ModelError."""
    family = DiffusionGemma.load(registry.find(model), device, dtype, lambda _fraction, _what: None)
    return MeasuredNetwork(model, cast("Network", family.network), family.properties)


def random_network(shape: str, device: str | None, dtype: str | None) -> MeasuredNetwork:
    """Random weights of one of `RANDOM_SHAPES`, made on the device itself. Raises ModelError if they cannot fit."""
    from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion, DiffusionGemmaTextConfig

    place = devices.choose_device(device)
    if shape == "26b" and place.type != "cuda":
        raise ModelError("--random 26b needs a CUDA device with 64 GB: its weights alone are 52 GB")
    precision = devices.precisions(dtype, place)[0]
    if precision.name == devices.FOUR_BIT:
        raise ModelError("random weights are not packed into 4 bits; give a checkpoint, or another --dtype")
    text = DiffusionGemmaTextConfig(**RANDOM_SHAPES[shape])
    config = DiffusionGemmaConfig(text_config=text, vision_config=NO_VISION)
    before = torch.get_default_dtype()
    torch.set_default_dtype(precision.dtype)
    try:
        with torch.device(place):
            model: Any = DiffusionGemmaForBlockDiffusion(config)
    finally:
        torch.set_default_dtype(before)
    model.eval()
    model.set_attn_implementation("sdpa")
    return MeasuredNetwork(f"random-{shape}", recorded.fastest(model), Properties())


def milliseconds(work: Callable[[], object], device: torch.device, repeats: int = 5) -> float:
    """The median time of `work` after a warm-up, including its queued work on the device."""
    work()
    times = []
    for _ in range(repeats):
        wait(device)
        began = time.perf_counter()
        work()
        wait(device)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def wait(device: torch.device) -> None:
    """Waits until the device has finished everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def peak_bytes(device: torch.device) -> int:
    """The peak of torch's allocations on CUDA; elsewhere the resident size of the process now."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return int(psutil.Process().memory_info().rss)


def bandwidth_bytes_per_s(device: torch.device, size_bytes: int) -> float:
    """The memory bandwidth of a large copy, counting bytes read and bytes written."""
    source = torch.empty(size_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size_bytes / (milliseconds(lambda: target.copy_(source), device) / 1000)


def step_bytes(network: Network, rows: int) -> int:
    """How many bytes of weights one decoder pass over `rows` canvas rows must read: all but the unused experts.

    Random rows use 1 - (1 - k/E)^rows of E experts, k each; the embedding is lm_head, and the encoder the decoder.
    """
    config = network.model.config.text_config
    used = 1 - (1 - config.top_k_experts / config.num_experts) ** rows
    total = 0.0
    for name, parameter in network.model.model.decoder.named_parameters():
        share = used if ".experts." in name else 1.0
        total += share * parameter.numel() * parameter.element_size()
    return int(total)


def main(argv: Sequence[str] | None = None, lengths: Sequence[int] = _PREFIXES) -> int:
    """Measures with prefixes of these numbers of tokens, and prints; returns the exit status."""
    args = argument_parser().parse_args(argv)
    try:
        measured = (
            random_network(args.random, args.device, args.dtype)
            if args.random
            else from_checkpoint(args.model, args.device, args.dtype)
        )
    except ModelError as error:
        print(f"infill-ls: {error}", file=sys.stderr)
        return 2
    result = measure(LatencyBench(measured), lengths, quiet=args.json)
    print(json.dumps(result))
    return 0


def measure(bench: "LatencyBench", lengths: Sequence[int] = _PREFIXES, *, quiet: bool = False) -> dict[str, Any]:
    """The results of all sections. Prints each when done, unless `quiet`."""
    longest = bench.measured.properties.max_prefix_tokens
    usual = min(longest, lengths[0])
    result: dict[str, Any] = _about(bench)
    sections: dict[str, Callable[[], Any]] = {
        "against_generate": lambda: against_generate(bench, usual),
        "prefixes": lambda: prefixes(bench, sorted({min(longest, length) for length in lengths})),
        "floor": lambda: _floor(bench, usual),
    }
    for name, section in sections.items():
        result[name] = section()
        if not quiet:
            print(f"{name}: {json.dumps(_rounded(result[name]), indent=1)}", flush=True)
    result["peak_bytes"] = peak_bytes(bench.device)
    return _rounded(result)  # type: ignore[no-any-return]


class LatencyBench:
    """A network under measurement, and the random tokens it is measured on."""

    def __init__(self, measured: MeasuredNetwork) -> None:
        self.measured = measured
        self.network = measured.network
        self.device = measured.network.device
        self.canvas_tokens = int(self.network.model.config.canvas_length)
        self._generator = torch.Generator().manual_seed(0)
        mask = measured.properties.mask_token_id
        stream = torch.Generator(self.device).manual_seed(0)
        vocabulary_size = self.network.vocabulary_size
        self._noise: Noise = UniformNoise(vocabulary_size, stream) if mask is None else MaskNoise(mask, stream)

    def ids(self, count: int) -> list[int]:
        """Random tokens."""
        return torch.randint(5, self.network.vocabulary_size, (count,), generator=self._generator).tolist()

    def cache(self) -> PrefixCache:
        """An empty cache."""
        return PrefixCache(self.network, 8 << 30)

    def encoded(self, cache: PrefixCache, ids: Sequence[int]) -> EncodedContext:
        """Returns the whole prefix after encoding whatever the cache lacks. The caller closes it."""
        context = EncodedContext(self.network, cache.acquire(ids), ids)
        for _ in context.encode():
            pass
        return context

    def denoise(self, context: EncodedContext, hole: int, suffix: int) -> None:
        """Takes steps on a canvas with `hole` tokens to fill and `suffix` pinned ones after them."""
        row = Row((OPEN,) * hole + tuple(self.ids(suffix)), ((0, 0, hole),))
        canvas = CanvasBatch.of([row], self.device)
        settings = SamplerSettings(max_steps=STEPS, **_NEVER_STOP)  # type: ignore[arg-type]
        loop = Denoising(context, canvas, settings, self._noise)
        while not loop.finished:
            loop.step()

    def generate(self, ids: Sequence[int]) -> None:
        """Runs transformers' own loop over one canvas."""
        from transformers.models.diffusion_gemma.generation_diffusion_gemma import (
            DiffusionGemmaGenerationConfig,
            EntropyBoundSamplerConfig,
        )

        times = {"t_min": 0.4, "t_max": 0.8, "stability_threshold": 1, "confidence_threshold": 1e-30}
        sampler = EntropyBoundSamplerConfig(entropy_bound=0.1)
        config: Any = DiffusionGemmaGenerationConfig(  # type: ignore[no-untyped-call]
            max_new_tokens=self.canvas_tokens, max_denoising_steps=STEPS, sampler_config=sampler, **times
        )
        self.network.model.generate(torch.tensor([list(ids)], device=self.device), generation_config=config)

    def ms(self, work: Callable[[], object], repeats: int = 5) -> float:
        """The median milliseconds of `work`."""
        return milliseconds(work, self.device, repeats)


def against_generate(bench: LatencyBench, prefix: int) -> dict[str, Any]:
    """One single-line infill: our loop on the same canvas and on a tight one, prefix cold and warm, and `generate`."""
    ids = bench.ids(prefix)
    cache = bench.cache()
    warm = bench.encoded(cache, ids)
    wide = bench.canvas_tokens - LINE_TOKENS

    def cold(suffix: int) -> None:
        context = bench.encoded(bench.cache(), ids)
        bench.denoise(context, LINE_TOKENS, suffix)
        context.close()

    def keystroke(suffix: int) -> None:
        context = bench.encoded(cache, [*ids, *bench.ids(1)])
        bench.denoise(context, LINE_TOKENS, suffix)
        context.close()

    theirs = bench.ms(lambda: bench.generate(ids))
    rows = {
        "same_canvas_cold_ms": bench.ms(lambda: cold(wide)),
        "same_canvas_warm_ms": bench.ms(lambda: keystroke(wide)),
        "tight_canvas_cold_ms": bench.ms(lambda: cold(SUFFIX_TOKENS)),
        "tight_canvas_warm_ms": bench.ms(lambda: keystroke(SUFFIX_TOKENS)),
    }
    warm.close()
    ratios = {name.replace("_ms", "_times_faster"): theirs / ms for name, ms in rows.items()}
    return {"prefix_tokens": prefix, "hole_tokens": LINE_TOKENS, "steps": STEPS, "generate_ms": theirs} | rows | ratios


def prefixes(bench: LatencyBench, lengths: Sequence[int]) -> list[dict[str, Any]]:
    """A keystroke at the end of a prefix: encoding all of it, against only the part missing from the cache."""
    found = []
    for length in lengths:
        ids = bench.ids(length)
        cache = bench.cache()
        bench.encoded(cache, ids).close()
        cold = bench.ms(partial(_encode, bench, ids, 0), 3)
        warm = bench.ms(partial(_encode, bench, ids, 1, cache))
        found.append({"prefix_tokens": length, "cold_ms": cold, "warm_ms": warm, "warm_share": warm / cold})
    return found


def _encode(bench: LatencyBench, ids: Sequence[int], typed: int, cache: PrefixCache | None = None) -> None:
    """Encodes a prefix and `typed` more tokens, reusing the cached part."""
    bench.encoded(cache or bench.cache(), [*ids, *bench.ids(typed)]).close()


def _about(bench: LatencyBench) -> dict[str, Any]:
    device = bench.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {
        "model": bench.measured.name,
        "device": name,
        "dtype": str(bench.network.dtype).removeprefix("torch."),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def _floor(bench: LatencyBench, prefix: int) -> dict[str, Any]:
    """A step on a full canvas, against the time to read its weights once."""
    context = bench.encoded(bench.cache(), bench.ids(prefix))
    hole = _FLOOR_CANVAS // 4
    ms = bench.ms(lambda: bench.denoise(context, hole, _FLOOR_CANVAS - hole), 3) / STEPS
    context.close()
    read = step_bytes(bench.network, _FLOOR_CANVAS)
    copied_bytes = 2 << 30 if bench.device.type == "cuda" else 256 << 20
    bandwidth = bandwidth_bytes_per_s(bench.device, copied_bytes)
    floor_ms = read / bandwidth * 1000
    sizes = {"canvas_tokens": _FLOOR_CANVAS, "ms_per_step": ms, "step_bytes": read, "bandwidth_bytes_per_s": bandwidth}
    return {**sizes, "floor_ms": floor_ms, "times_floor": ms / floor_ms}


def _rounded(value: Any) -> Any:
    """Four significant digits: more than a clock on a shared machine can resolve."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def argument_parser() -> argparse.ArgumentParser:
    """The benchmark's flags."""
    parser = argparse.ArgumentParser(prog="infill-ls bench latency", description=__doc__)
    parser.add_argument("--model", default="embedded", metavar="ID_OR_FOLDER", help="the model (default: embedded)")
    parser.add_argument("--random", choices=sorted(RANDOM_SHAPES), help="random weights of a shape")
    parser.add_argument("--device", metavar="NAME", help="where to compute (default: the best device found)")
    parser.add_argument("--dtype", metavar="NAME", help="what to compute in (default: the best found)")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    return parser


if __name__ == "__main__":
    sys.exit(main())

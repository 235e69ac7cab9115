"""`infill-ls bench latency`: our engine against other ways to run the same weights, in one run.

All sections measure one network on random tokens, which take as long as code; no stopping rule applies. It prints one
JSON object as its last line. The figures are medians; compare ratios, not machines.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from inference.bench import latency_network
from inference.bench.latency_network import MeasuredNetwork
from inference.engine.canvas.batch import CanvasBatch
from inference.engine.canvas.layout import OPEN, Row
from inference.engine.search.denoise import Denoising
from inference.engine.search.sampler import MaskNoise, Noise, UniformNoise
from inference.models.diffusion_gemma.adapter import EncodedContext
from inference.models.diffusion_gemma.prefix_cache import PrefixCache
from inference.models.family import ModelError
from inference.models.properties import SamplerSettings

_PREFIXES = (1024, 8192)
_FLOOR_CANVAS = 256
STEPS = 8
LINE_TOKENS, SUFFIX_TOKENS = 8, 16
_NEVER_STOP = {"stability": 1, "confidence": 1e-30}


def main(argv: Sequence[str] | None = None, lengths: Sequence[int] = _PREFIXES) -> int:
    """Measures with prefixes of these numbers of tokens, and prints; returns the exit status."""
    args = argument_parser().parse_args(argv)
    try:
        measured = (
            latency_network.random(args.random, args.device, args.dtype)
            if args.random
            else latency_network.from_checkpoint(args.model, args.device, args.dtype)
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
        "against_left_to_right": lambda: against_left_to_right(bench, usual),
        "prefixes": lambda: prefixes(bench, sorted({min(longest, length) for length in lengths})),
        "batches": lambda: batches(bench, usual),
        "floor": lambda: _floor(bench, usual),
    }
    for name, section in sections.items():
        result[name] = section()
        if not quiet:
            print(f"{name}: {json.dumps(_rounded(result[name]), indent=1)}", flush=True)
    result["peak_bytes"] = latency_network.peak_bytes(bench.device)
    return _rounded(result)  # type: ignore[no-any-return]


class LatencyBench:
    """A network under measurement, and the random tokens it is measured on."""

    def __init__(self, measured: MeasuredNetwork) -> None:
        self.measured, self.network, self.device = measured, measured.network, measured.network.device
        self.canvas_tokens = int(self.network.model.config.canvas_length)
        self._generator = torch.Generator().manual_seed(0)
        mask, stream = measured.properties.mask_token_id, torch.Generator(self.device).manual_seed(0)
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

    def denoise(self, context: EncodedContext, hole: int, suffix: int, batch: int = 1, steps: int = STEPS) -> None:
        """Takes `steps` steps on `batch` canvases, with `hole` tokens to fill and `suffix` pinned ones after them."""
        row = Row((OPEN,) * hole + tuple(self.ids(suffix)), ((0, 0, hole),))
        canvas = CanvasBatch.of([row] * batch, self.device)
        settings = SamplerSettings(max_steps=steps, **_NEVER_STOP)  # type: ignore[arg-type]
        loop = Denoising(context, canvas, settings, self._noise)
        while not loop.finished:
            loop.step()

    def generate(self, ids: Sequence[int], steps: int = STEPS) -> None:
        """Runs transformers' own loop over one canvas."""
        from transformers.models.diffusion_gemma.generation_diffusion_gemma import (
            DiffusionGemmaGenerationConfig,
            EntropyBoundSamplerConfig,
        )

        times = {"t_min": 0.4, "t_max": 0.8, "stability_threshold": 1, "confidence_threshold": 1e-30}
        sampler = EntropyBoundSamplerConfig(entropy_bound=0.1)
        config: Any = DiffusionGemmaGenerationConfig(  # type: ignore[no-untyped-call]
            max_new_tokens=self.canvas_tokens, max_denoising_steps=steps, sampler_config=sampler, **times
        )
        self.network.model.generate(torch.tensor([list(ids)], device=self.device), generation_config=config)

    def ms(self, work: Callable[[], object], repeats: int = 5) -> float:
        """The median milliseconds of `work`."""
        return latency_network.milliseconds(work, self.device, repeats)


def against_generate(bench: LatencyBench, prefix: int) -> dict[str, Any]:
    """One single-line infill: our loop on the same canvas and on a tight one, prefix cold and warm, and `generate`."""
    ids, cache = bench.ids(prefix), bench.cache()
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


def against_left_to_right(bench: LatencyBench, prefix: int) -> list[dict[str, Any]]:
    """Holes of several sizes, prefix warm on both sides: one canvas against one token after the other."""
    ids, cache, found = bench.ids(prefix), bench.cache(), []
    context = bench.encoded(cache, ids)
    for hole in (8, 32, 64, 128):
        one_by_one = bench.ms(lambda: list(latency_network.left_to_right(cache, ids, hole)), 3)  # noqa: B023
        canvas = bench.ms(partial(bench.denoise, context, hole, SUFFIX_TOKENS), 3)
        times = {"canvas_ms": canvas, "left_to_right_ms": one_by_one, "times_faster": one_by_one / canvas}
        speeds = {"canvas_tokens_per_s": hole / canvas * 1000, "left_to_right_tokens_per_s": hole / one_by_one * 1000}
        found.append({"hole_tokens": hole, "steps": STEPS, **times, **speeds})
    context.close()
    return found


def prefixes(bench: LatencyBench, lengths: Sequence[int]) -> list[dict[str, Any]]:
    """A keystroke at the end of a prefix: encoding all of it, against only the part missing from the cache."""
    found = []
    for length in lengths:
        ids, cache = bench.ids(length), bench.cache()
        bench.encoded(cache, ids).close()
        cold = bench.ms(partial(_encode, bench, ids, 0), 3)
        warm = bench.ms(partial(_encode, bench, ids, 1, cache))
        found.append({"prefix_tokens": length, "cold_ms": cold, "warm_ms": warm, "warm_share": warm / cold})
    return found


def _encode(bench: LatencyBench, ids: Sequence[int], typed: int, cache: PrefixCache | None = None) -> None:
    """Encodes a prefix and `typed` more tokens, reusing the cached part."""
    bench.encoded(cache or bench.cache(), [*ids, *bench.ids(typed)]).close()


def batches(bench: LatencyBench, prefix: int) -> list[dict[str, Any]]:
    """Several lengths side by side in one forward pass."""
    context = bench.encoded(bench.cache(), bench.ids(prefix))
    found = []
    for size in (1, 4, 8):
        ms = bench.ms(partial(bench.denoise, context, LINE_TOKENS, SUFFIX_TOKENS, batch=size)) / STEPS
        found.append({"lengths": size, "ms_per_step": ms, "ms_per_step_and_length": ms / size})
    context.close()
    return found


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
    read = latency_network.step_bytes(bench.network, _FLOOR_CANVAS)
    copied_bytes = 2 << 30 if bench.device.type == "cuda" else 256 << 20
    bandwidth = latency_network.bandwidth_bytes_per_s(bench.device, copied_bytes)
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
    parser.add_argument("--model", default="embedded", metavar="ID_OR_FOLDER")
    parser.add_argument("--random", choices=sorted(latency_network.RANDOM_SHAPES), help="random weights of a shape")
    parser.add_argument(
        "--random-26b", dest="random", action="store_const", const="26b", help="the same as --random 26b"
    )
    parser.add_argument("--device", metavar="NAME")
    parser.add_argument("--dtype", metavar="NAME")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    return parser


if __name__ == "__main__":
    sys.exit(main())

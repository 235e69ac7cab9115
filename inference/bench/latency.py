"""`infill-ls bench latency`: our engine against every other way to run the same weights, in one run.

Last line of output: one JSON object. The figures are medians; compare ratios, not machines.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from inference.bench import latency_network, latency_plot, latency_sections, timing
from inference.bench.latency_sections import LatencyBench
from inference.engine.errors import ModelError

_PREFIXES = (1024, 8192)
_FLOOR_CANVAS = 256


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints, and returns the exit status."""
    args = _parser().parse_args(argv)
    try:
        chosen = (
            latency_network.random(args.random, args.device, args.dtype)
            if args.random
            else latency_network.from_checkpoint(args.model, args.device, args.dtype)
        )
    except ModelError as error:
        print(f"infill-ls: {error}", file=sys.stderr)
        return 2
    result = measure(LatencyBench(chosen), quiet=args.json)
    if args.plot:
        args.plot.write_text(latency_plot.svg(result), "utf-8")
    print(json.dumps(result))
    return 0


def measure(bench: LatencyBench, *, quiet: bool = False) -> dict[str, Any]:
    """All sections, each printed as it is done unless `quiet`."""
    longest = bench.subject.properties.max_prefix_tokens
    usual = min(longest, _PREFIXES[0])
    result: dict[str, Any] = _about(bench)
    sections: dict[str, Callable[[], Any]] = {
        "against_generate": lambda: latency_sections.against_generate(bench, usual),
        "against_left_to_right": lambda: latency_sections.against_left_to_right(bench, usual),
        "prefixes": lambda: latency_sections.prefixes(bench, sorted({min(longest, length) for length in _PREFIXES})),
        "batches": lambda: latency_sections.batches(bench, usual),
        "floor": lambda: _floor(bench, usual),
    }
    for name, section in sections.items():
        result[name] = section()
        if not quiet:
            print(f"{name}: {json.dumps(_rounded(result[name]), indent=1)}", flush=True)
    result["peak_bytes"] = timing.peak_bytes(bench.device)
    return _rounded(result)  # type: ignore[no-any-return]


def _about(bench: LatencyBench) -> dict[str, Any]:
    device = bench.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {
        "model": bench.subject.name,
        "device": name,
        "dtype": str(bench.network.dtype).removeprefix("torch."),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def _floor(bench: LatencyBench, prefix: int) -> dict[str, Any]:
    """A step on a full canvas against the time it takes to read the weights it needs once."""
    lease = bench.encoded(bench.cache(), bench.ids(prefix))
    hole = _FLOOR_CANVAS // 4
    steps = latency_sections.STEPS
    ms = bench.ms(lambda: bench.denoise(lease, hole, _FLOOR_CANVAS - hole), 3) / steps
    lease.release()
    read = latency_network.step_bytes(bench.network, _FLOOR_CANVAS)
    bandwidth = timing.bandwidth_bytes_per_s(bench.device, 2 << 30 if bench.device.type == "cuda" else 256 << 20)
    floor_ms = read / bandwidth * 1000
    return {
        "canvas_tokens": _FLOOR_CANVAS,
        "ms_per_step": ms,
        "step_bytes": read,
        "bandwidth_bytes_per_s": bandwidth,
        "floor_ms": floor_ms,
        "times_floor": ms / floor_ms,
    }


def _rounded(value: Any) -> Any:
    """Four significant digits: more than a clock on a shared machine can tell."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="infill-ls bench latency", description=__doc__)
    parser.add_argument("--model", default="embedded", metavar="ID_OR_FOLDER")
    parser.add_argument("--random-26b", dest="random", action="store_const", const="26b", help="the released shape")
    parser.add_argument("--random", choices=sorted(latency_network.RANDOM_SHAPES), help="random weights of a shape")
    parser.add_argument("--device", metavar="NAME")
    parser.add_argument("--dtype", metavar="NAME")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw it")
    return parser


if __name__ == "__main__":
    sys.exit(main())

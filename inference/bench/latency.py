"""`infill-ls bench latency`: our engine against other ways to run the same weights, in one run.

It prints one JSON object as its last line. The figures are medians; compare ratios, not machines.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import torch

from inference.bench import latency_network, latency_sections, latency_timing
from inference.bench.latency_sections import LatencyBench
from inference.models.family import ModelError

_PREFIXES = (1024, 8192)
_FLOOR_CANVAS = 256
_WIDTH, _LABEL, _BAR, _GAP = 760, 300, 20, 8
_COLOURS = {"ours": "#3b82c4", "theirs": "#b0b7bf"}


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints; returns the exit status."""
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
    result = measure(LatencyBench(measured), quiet=args.json)
    if args.plot:
        args.plot.write_text(_svg(result), "utf-8")
    print(json.dumps(result))
    return 0


def measure(bench: LatencyBench, *, quiet: bool = False) -> dict[str, Any]:
    """The results of all sections. Prints each when done, unless `quiet`."""
    longest = bench.measured.properties.max_prefix_tokens
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
    result["peak_bytes"] = latency_timing.peak_bytes(bench.device)
    return _rounded(result)  # type: ignore[no-any-return]


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
    steps = latency_sections.STEPS
    ms = bench.ms(lambda: bench.denoise(context, hole, _FLOOR_CANVAS - hole), 3) / steps
    context.close()
    read = latency_timing.step_bytes(bench.network, _FLOOR_CANVAS)
    copied_bytes = 2 << 30 if bench.device.type == "cuda" else 256 << 20
    bandwidth = latency_timing.bandwidth_bytes_per_s(bench.device, copied_bytes)
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
    """Four significant digits: more than a clock on a shared machine can resolve."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _svg(result: dict[str, Any]) -> str:
    """The picture as text: milliseconds, ours in colour, the other ways grey."""
    bars = _bars(result)
    longest = max(ms for _, ms, _ in bars)
    height = 40 + len(bars) * (_BAR + _GAP)
    title = f"{result['model']} on {result['device']}, {result['dtype']}: milliseconds"
    lines = [f'<text x="8" y="22" font-weight="bold">{escape(title)}</text>']
    for number, (label, ms, whose) in enumerate(bars):
        y = 36 + number * (_BAR + _GAP)
        width = max(1.0, (_WIDTH - _LABEL - 90) * ms / longest)
        lines += [
            f'<text x="{_LABEL - 8}" y="{y + 15}" text-anchor="end">{escape(label)}</text>',
            f'<rect x="{_LABEL}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{_COLOURS[whose]}"/>',
            f'<text x="{_LABEL + width + 6:.1f}" y="{y + 15}">{ms:.4g}</text>',
        ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif"'
    return f'{head} font-size="13"><rect width="100%" height="100%" fill="#fff"/>{"".join(lines)}</svg>\n'


def _bars(result: dict[str, Any]) -> list[tuple[str, float, str]]:
    """(label, milliseconds, whose) of each bar, top to bottom."""
    line, found = result["against_generate"], []
    found.append(("a line: transformers' generate", line["generate_ms"], "theirs"))
    found.append(("a line: ours, same canvas, cold", line["same_canvas_cold_ms"], "ours"))
    found.append(("a line: ours, tight canvas, warm", line["tight_canvas_warm_ms"], "ours"))
    for row in result["against_left_to_right"]:
        found.append((f"{row['hole_tokens']} tokens: left to right", row["left_to_right_ms"], "theirs"))
        found.append((f"{row['hole_tokens']} tokens: canvas", row["canvas_ms"], "ours"))
    for row in result["prefixes"]:
        found.append((f"keystroke at {row['prefix_tokens']} tokens: cold", row["cold_ms"], "theirs"))
        found.append((f"keystroke at {row['prefix_tokens']} tokens: warm", row["warm_ms"], "ours"))
    return found


def argument_parser() -> argparse.ArgumentParser:
    """The benchmark's flags."""
    parser = argparse.ArgumentParser(prog="infill-ls bench latency", description=__doc__)
    parser.add_argument("--model", default="embedded", metavar="ID_OR_FOLDER")
    parser.add_argument(
        "--random-26b",
        dest="random",
        action="store_const",
        const="26b",
        help="random weights of the released 26B shape",
    )
    parser.add_argument("--random", choices=sorted(latency_network.RANDOM_SHAPES), help="random weights of a shape")
    parser.add_argument("--device", metavar="NAME")
    parser.add_argument("--dtype", metavar="NAME")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the result")
    return parser


if __name__ == "__main__":
    sys.exit(main())

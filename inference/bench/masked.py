"""`infill-ls bench masked`: what a masked-diffusion model of a published shape takes: memory, and time to fill a line.

Its weights are made up, so it tells nothing of quality. Each fill has the same text around it but for what is typed
before it; the first knows nothing of an earlier one. It prints one JSON object as its last line.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from inference.bench import latency_timing, masked_checkpoint
from inference.engine import Engine
from inference.messages import Done, Hole, InfillRequest, Text
from inference.models import registry
from inference.models.family import ModelError

_LINE = "    total = {word}(first, second)  # of both\n"
_WORDS = ("add", "sub", "mul", "div")
"""One for each way to fill, so that none knows the text of another."""

_LATER_FILLS = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    args = argument_parser().parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="infill-ls-") as folder:
        if args.model is None:
            masked_checkpoint.write(Path(folder), args.shape, dense=not args.sparse)
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
    parser.add_argument("--shape", choices=sorted(masked_checkpoint.SHAPES), default="0.5b", help="made-up weights")
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
    """The first fill at a place where nothing is known yet, and those after each further character."""
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


if __name__ == "__main__":
    sys.exit(main())

"""`infill-ls bench memory`: a model's memory as a worker runs it, and the benefit of its prefix cache by size.

Plays a session for each size of the cache: several files, typing, moving in a file, jumping between files and back.
Each request encodes the text before the cursor, as every fill begins. It prints one JSON object as its last line.
"""

import argparse
import gc
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from inference.bench import latency_timing
from inference.engine import Engine
from inference.engine.canvas import prompt
from inference.messages import Hole, InfillRequest, Text
from inference.models import registry
from inference.models.diffusion_gemma.adapter import DiffusionGemma
from inference.models.diffusion_gemma.prefix_cache import PrefixCache
from inference.models.family import ModelError

CACHED_PREFIXES = (0, 1, 2, 4, 8, 16, 32, 64, 256)
_FILES = 12
_TYPED = 12
"""How many requests a stay at one place makes; each comes after a few more characters, some after a deletion."""
_JUMP, _BACK = 0.4, 0.5
"""How often the user switches files, and how often they return, in the same file or another, to an earlier place."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and prints; returns the exit status."""
    args = argument_parser().parse_args(argv)
    try:
        family = registry.load(args.model, device=args.device, dtype=args.dtype)
    except ModelError as error:
        print(f"infill-ls: {error}", file=sys.stderr)
        return 2
    assert isinstance(family, DiffusionGemma)
    print(json.dumps(measure(family, args.requests, args.fills, quiet=args.json)))
    return 0


def argument_parser() -> argparse.ArgumentParser:
    """The arguments of the benchmark."""
    parser = argparse.ArgumentParser(prog="infill-ls bench memory")
    parser.add_argument("--model", default="embedded", metavar="ID_OR_FOLDER", help="the checkpoint")
    parser.add_argument("--device", metavar="NAME")
    parser.add_argument("--dtype", metavar="NAME")
    parser.add_argument("--requests", type=int, default=600, metavar="N", help="requests of each session")
    parser.add_argument("--fills", type=int, default=60, metavar="N", help="whole fills of the last session")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    return parser


def measure(family: DiffusionGemma, requests: int, fills: int, *, quiet: bool = False) -> dict[str, Any]:
    """The memory after loading, and after a session with the default cache and whole fills; then one row per size."""
    engine, shipped = Engine(family), family.prefixes.budget_bytes
    engine.warm_up()
    result: dict[str, Any] = {"model": family.name, "device": engine.device, "requests": requests, "fills": fills}
    result |= {"cache_bytes": shipped, "prefix_bytes": family.prefix_bytes, "loaded_bytes": _memory(family)}
    _play(engine, requests)
    for text in list(session(requests, seed=1))[:: max(1, requests // fills)][:fills]:
        segments = (Text(text), Hole(single_line=True), Text("\n"))
        for _ in engine.infill(InfillRequest("r", segments, candidates=3, seed=0)):
            pass
    result["after_session_bytes"] = _memory(family)
    if not quiet:
        print(f"loaded {_mb(result['loaded_bytes'])}, after {requests} prefixes and {fills} fills ", end="")
        print(f"{_mb(result['after_session_bytes'])}; cache {_mb(shipped)}, a whole prefix {_mb(family.prefix_bytes)}")
    result["sizes"] = []
    for count in CACHED_PREFIXES:
        family.prefixes = PrefixCache(family.network, count * family.prefix_bytes)
        row = {"prefixes": count, **_play(engine, requests), "memory_bytes": _memory(family)}
        result["sizes"].append(row)
        if not quiet:
            print(_line(row), flush=True)
    return result


def session(requests: int, seed: int = 0) -> Iterator[str]:
    """The text before the cursor at each request of a user who writes the files of this package."""
    chance, files = random.Random(seed), _files()  # noqa: S311 - a session that repeats
    places: dict[int, list[int]] = {number: [] for number in range(len(files))}
    number, made = 0, 0
    while made < requests:
        if chance.random() < _JUMP:
            number = chance.randrange(len(files))
        text, visited = files[number], places[number]
        back = visited and chance.random() < _BACK
        cursor = chance.choice(visited[-3:]) if back else text.index("\n", chance.randrange(len(text) * 3 // 4))
        for _ in range(min(_TYPED, requests - made)):
            cursor = max(0, cursor + (-2 if chance.random() < 0.1 else chance.randint(1, 4)))
            yield text[:cursor]
            made += 1
        visited.append(cursor)


def _files() -> list[str]:
    """The longest modules of the package, which exist in every installation."""
    found = sorted(Path(registry.__file__).parents[1].rglob("*.py"), key=lambda file: (-file.stat().st_size, file.name))
    return [file.read_text("utf-8") for file in found[:_FILES]]


def _play(engine: Engine, requests: int) -> dict[str, float]:
    """Encodes each prefix of a session; returns the share found in the cache, and the cost of the rest."""
    vocabulary, properties = engine.loaded.vocabulary, engine.loaded.properties
    reused = total = 0
    times = []
    for text in session(requests):
        ids = prompt.prefix(vocabulary, properties, text, properties.max_prefix_tokens)
        began = time.perf_counter()
        context = engine.loaded.family.open(ids)
        reused, total = reused + context.reused_tokens, total + len(ids)
        for _ in context.encode():
            pass
        context.close()
        times.append((time.perf_counter() - began) * 1000)
    times.sort()
    mean, p95 = statistics.fmean(times), times[int(len(times) * 0.95)]
    return {"reused": reused / total, "encode_mean_ms": mean, "encode_p95_ms": p95, "encode_total_ms": sum(times)}


def _memory(family: DiffusionGemma) -> int:
    gc.collect()
    return latency_timing.peak_bytes(family.device)


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['prefixes']:4} prefixes: {row['reused']:6.1%} of the tokens reused, "
        f"encoding {row['encode_mean_ms']:5.1f} ms (p95 {row['encode_p95_ms']:5.1f}), {_mb(row['memory_bytes'])}"
    )


def _mb(count_bytes: float) -> str:
    return f"{count_bytes / 1e6:.0f} MB"


if __name__ == "__main__":
    sys.exit(main())

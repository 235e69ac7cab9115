"""What shadow mode costs a user: how long a keystroke's answer takes with a sample of 0.2 and without, in one run.

    python -m tests.shadow_latency --epochs 20

Two real servers with the embedded model, the same worker for both. Somebody types into one of them for an epoch, then
into the other, in the order A B B A; between bursts there are pauses, some long enough for the other model to be asked
and short enough to be cut off by the next key. The partner is a scripted server that writes a token each 20 ms. No part
of the tests: it prints times, and the last line is one JSON object. Quiet machines only.
"""

import argparse
import json
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from inference.bench.server_editor import ScriptedEditor

_FUNCTION = "def name_{0}(first, second):\n    total = first + {0}\n    chosen = \n    return total\n\n"
_LINES, _LINE, _COLUMN = 5, 2, 13
_BURST, _BURSTS, _BETWEEN_KEYS_S = 6, 3, 0.05
_PAUSES_S = (1.05, 2.2)
_QUIET_S = 2.5
"""After an epoch: until the other model has been asked what is still waiting."""
_RESAMPLES = 2000
_OPTIONS = {"debounceMs": 0, "deadlineMs": {"automatic": 60_000, "invoked": 60_000}, "idleSeconds": 30}


class Typist:
    """Types letters that no suggestion goes on with, each on the line of a function of its own for one burst."""

    def __init__(self, options: dict[str, Any], runtime: Path) -> None:
        self._editor = ScriptedEditor(runtime, {**_OPTIONS, **options})
        self._editor.open("".join(_FUNCTION.format(number) for number in range(2000)))
        self._function = 0
        self.times_ms: list[list[float]] = []

    def epoch(self, chance: random.Random) -> None:
        """Some bursts of keys, with pauses before each."""
        times = []
        for _ in range(_BURSTS):
            time.sleep(chance.uniform(*_PAUSES_S))
            self._function += 1
            for number in range(_BURST):
                times.append(self._key(number, chance.choice("abcdefgh")))
                time.sleep(_BETWEEN_KEYS_S)
        self.times_ms.append(times)
        time.sleep(_QUIET_S)

    def warm_up(self) -> None:
        """Until the model is loaded, and a burst more."""
        while not self._editor.complete(_LINE, _COLUMN):
            time.sleep(0.5)
        self.epoch(random.Random(0))
        self.times_ms.clear()

    def close(self) -> None:
        """End the server."""
        self._editor.__exit__()

    def _key(self, number: int, letter: str) -> float:
        line, column = self._function * _LINES + _LINE, _COLUMN + number
        began_s = time.perf_counter()
        self._editor.type(line, column, letter)
        self._editor.complete(line, column + 1)
        return (time.perf_counter() - began_s) * 1000


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20, help="for each of the two servers (default: %(default)s)")
    parser.add_argument(
        "--sample", type=float, default=0.2, help="the share that is asked twice (default: %(default)s)"
    )
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="ils-", dir="/tmp") as folder, _partner() as url:
        runtime, chance = Path(folder), random.Random(7)
        shadowed = Typist({"partner": {"url": url}, "shadow": {"sample": args.sample}}, runtime)
        plain = Typist({"partner": {"url": url}}, runtime)
        both = (shadowed, plain)
        for typist in both:
            typist.warm_up()
        for number in range(args.epochs):
            for typist in both if number % 2 else both[::-1]:
                typist.epoch(chance)
        found = _found(shadowed.times_ms, plain.times_ms, args.sample) | {"asked": _asked(runtime)}
        for typist in both:
            typist.close()
    print(json.dumps(found))
    return 0


@contextmanager
def _partner() -> Iterator[str]:
    words = [sys.executable, "-m", "tests.partner_server", "--kind", "fim", "--delay", "0.3", "--pause", "0.02"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def _asked(runtime: Path) -> dict[str, int]:
    """How the requests in the sample ended."""
    with closing(sqlite3.connect(runtime / "usage/usage.sqlite")) as connection:
        return dict(connection.execute("SELECT outcome, count(*) FROM pair GROUP BY outcome").fetchall())


def _found(shadowed: list[list[float]], plain: list[list[float]], sample: float) -> dict[str, Any]:
    """Ratios of percentiles, and the interval of each by a bootstrap over pairs of epochs that follow each other."""
    chance = random.Random(1)
    pairs = list(zip(shadowed, plain, strict=True))
    draws = [tuple(zip(*chance.choices(pairs, k=len(pairs)), strict=True)) for _ in range(_RESAMPLES)]
    found: dict[str, Any] = {"sample": sample, "keystrokes": [sum(map(len, each)) for each in (shadowed, plain)]}
    for name, at in (("p50", 49), ("p95", 94)):
        cuts = [_cut(each, at) for each in (shadowed, plain)]
        ratios = sorted(_cut(drawn[0], at) / _cut(drawn[1], at) for drawn in draws)
        found[name] = {
            "shadowed_ms": round(cuts[0], 1),
            "plain_ms": round(cuts[1], 1),
            "ratio": round(cuts[0] / cuts[1], 3),
            "interval": [round(ratios[int(len(ratios) * share)], 3) for share in (0.025, 0.975)],
        }
    return found


def _cut(epochs: Sequence[list[float]], at: int) -> float:
    return statistics.quantiles([ms for epoch in epochs for ms in epoch], n=100, method="inclusive")[at]


if __name__ == "__main__":
    sys.exit(main())

"""`infill-ls bench`, `train` and `models pull`: runs programs of `inference`, which may import torch."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

BENCHMARKS = ("latency", "passes", "server", "editor", "infilling", "next-edit", "edit-models")
EXIT_USAGE = 2


def bench(arguments: Sequence[str]) -> int:
    """Runs the benchmark named first in `arguments` with the rest of them; returns its exit status."""
    if not arguments or arguments[0] not in BENCHMARKS:
        if arguments and not arguments[0].startswith("-"):
            print(f"infill-ls bench: there is no benchmark {arguments[0]!r}", file=sys.stderr)
        print(f"usage: infill-ls bench {{{','.join(BENCHMARKS)}}} [--help] [its arguments]", file=sys.stderr)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else EXIT_USAGE
    return _run(f"inference.bench.{arguments[0].replace('-', '_')}", arguments[1:])


def train(arguments: Sequence[str]) -> int:
    """Runs the training with these arguments; returns its exit status."""
    return _run("inference.training", arguments)


def pull(arguments: Sequence[str]) -> int:
    """Downloads a model; returns its exit status. The hub's client must report nothing about its user."""
    return _run("inference.models.pull", arguments, HF_HUB_DISABLE_TELEMETRY="1")


def _run(module: str, arguments: Sequence[str], **environment: str) -> int:
    if find_spec(module) is None:
        print("infill-ls: this runs from a checkout of infill-ls; the package leaves it out", file=sys.stderr)
        return EXIT_USAGE
    # -P: the current folder may hold modules of the same name, and is not to be trusted
    words = [sys.executable, "-P", "-m", module, *arguments]
    with subprocess.Popen(words, env={**os.environ, **environment}) as program:
        signal.signal(signal.SIGTERM, lambda *_: program.terminate())  # or it would go on alone
        return program.wait()

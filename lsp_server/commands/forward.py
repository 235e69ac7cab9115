"""`infill-ls bench` and `models pull`: runs programs of `inference`, which may import torch."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from lsp_server.worker.paths import child_command

BENCHMARKS = ("latency", "passes", "server", "editor", "infilling", "next-edit", "edit-models")
EXIT_USAGE = 2
_INTERRUPTED_S = 0.5
"""How long a program that was interrupted with us may take to end."""


def bench(arguments: Sequence[str]) -> int:
    """Runs the benchmark named first in `arguments` with the rest of them; returns its exit status."""
    if not arguments or arguments[0] not in BENCHMARKS:
        if arguments and not arguments[0].startswith("-"):
            print(f"infill-ls bench: unknown benchmark {arguments[0]!r}", file=sys.stderr)
        print(f"usage: infill-ls bench {{{','.join(BENCHMARKS)}}} [--help] [its arguments]", file=sys.stderr)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else EXIT_USAGE
    return _run(f"inference.bench.{arguments[0].replace('-', '_')}", arguments[1:])


def pull(arguments: Sequence[str]) -> int:
    """Downloads a model; returns its exit status. The hub's client must report nothing about its user."""
    return _run("inference.models.pull", arguments, HF_HUB_DISABLE_TELEMETRY="1")


def _run(module: str, arguments: Sequence[str], **environment: str) -> int:
    with subprocess.Popen(child_command(module, *arguments), env={**os.environ, **environment}) as program:
        signal.signal(signal.SIGTERM, lambda *_: program.terminate())
        try:
            return program.wait()
        except KeyboardInterrupt:  # a terminal interrupts both, and anything else us alone
            with suppress(subprocess.TimeoutExpired):
                return program.wait(_INTERRUPTED_S)
            program.send_signal(signal.SIGTERM if os.name == "nt" else signal.SIGINT)
            return program.wait()

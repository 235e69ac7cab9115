"""`infill-ls bench` and `models pull`: runs programs of `inference`, which may import torch."""

import argparse
import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from lsp_server.worker.paths import child_command

BENCHMARKS = ("latency", "passes", "infilling", "next-edit", "scenarios")
_INTERRUPTED_S = 3.0
"""How long a program that was interrupted with us may take to end."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("benchmark", choices=BENCHMARKS)
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of the benchmark; see its --help"
    )


def run(args: argparse.Namespace) -> int:
    """Runs the benchmark; returns its exit status."""
    return _run("inference.bench", [args.benchmark, *args.arguments])


def pull(arguments: Sequence[str]) -> int:
    """Downloads a model; returns its exit status. The hub's client must report nothing about its user."""
    return _run("inference.models.pull", arguments, HF_HUB_DISABLE_TELEMETRY="1")


def _run(module: str, arguments: Sequence[str], **environment: str) -> int:
    program = subprocess.Popen(child_command(module, *arguments), env={**os.environ, **environment})
    try:
        return program.wait()
    except KeyboardInterrupt:  # which a terminal sends to both; what goes on then ends with us
        with suppress(subprocess.TimeoutExpired):
            program.wait(_INTERRUPTED_S)
        raise

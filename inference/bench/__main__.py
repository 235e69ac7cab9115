"""`python -m inference.bench NAME`: runs a benchmark. Its last line of output is one JSON object."""

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module

import httpx2

from inference.bench import BenchError
from inference.engine.errors import RequestError
from inference.models.family import ModelError
from inference.terminal import print_message


def main(argv: Sequence[str]) -> int:
    """Prints what the benchmark measures; returns the exit status, 2 if it cannot be measured."""
    name, *options = argv
    benchmark = import_module(f"inference.bench.{name.replace('-', '_')}")
    parser = argparse.ArgumentParser(
        f"infill-ls bench {name}",
        description=benchmark.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    benchmark.add_arguments(parser)
    args = parser.parse_args(options)
    try:
        print(json.dumps(benchmark.measure(args)))
    except (BenchError, ModelError, RequestError, OSError, ValueError, httpx2.HTTPError) as error:
        print_message(error)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

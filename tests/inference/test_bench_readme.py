"""The README of the benchmarks has a row for each, and `--help` explains every flag."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from lsp_server.commands.forward import BENCHMARKS

README = (Path(__file__).parents[2] / "inference" / "bench" / "README.md").read_text("utf-8")
_FLAG = re.compile(r"^  (--[a-z][a-z\d-]+)(?: [^\s]+)?(?:  +|\n +)\w", re.MULTILINE)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_each_benchmark_has_its_row_and_its_flags_their_help(benchmark: str) -> None:
    assert f"| `infill-ls bench {benchmark}` |" in README
    parser = import_module(f"inference.bench.{benchmark.replace('-', '_')}").argument_parser()
    flags = set(re.findall(r"--[a-z][a-z\d-]+", parser.format_usage()))
    assert set(_FLAG.findall(parser.format_help())) == flags

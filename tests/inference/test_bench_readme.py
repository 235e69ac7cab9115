"""The README of the benchmarks names every benchmark and every flag, and no flag that does not exist."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from lsp_server.commands.forward import BENCHMARKS

README = (Path(__file__).parents[2] / "inference" / "bench" / "README.md").read_text("utf-8")
FLAGS = README.partition("## Flags")[2].partition("## Measured")[0]
_FLAG = re.compile(r"--[a-z][a-z\d-]+")


def documented(benchmark: str) -> set[str]:
    """The flags of the table below the line that begins with a benchmark's name."""
    section = re.search(rf"^`bench {benchmark}\b.*?(?=^`bench|\Z)", FLAGS, re.MULTILINE | re.DOTALL)
    return set(_FLAG.findall(" ".join(row for row in section[0].splitlines() if row.startswith("|"))))


def flags_of(module: str) -> set[str]:
    return set(_FLAG.findall(import_module(f"inference.bench.{module}").argument_parser().format_usage()))


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_each_benchmark_has_its_row_and_its_flags(benchmark: str) -> None:
    assert f"| `infill-ls bench {benchmark}` |" in README
    assert documented(benchmark) == flags_of(benchmark.replace("-", "_"))

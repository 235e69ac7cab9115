"""The README of the benchmarks has a row for each, and `--help` explains every flag."""

import re
from pathlib import Path

import pytest

from inference.bench.__main__ import main
from lsp_server.commands.forward import BENCHMARKS

README = (Path(__file__).parents[2] / "inference" / "bench" / "README.md").read_text("utf-8")
_FLAG = re.compile(r"^  (--[a-z][a-z\d-]+)(?: [^\s]+)?(?:  +|\n +)\w", re.MULTILINE)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_each_benchmark_has_its_row_and_its_flags_their_help(
    benchmark: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"| `infill-ls bench {benchmark}` |" in README
    with pytest.raises(SystemExit):
        main([benchmark, "--help"])
    usage, _, explained = capsys.readouterr().out.partition("\n\n")
    flags = set(re.findall(r"--[a-z][a-z\d-]+", usage))
    assert flags and set(_FLAG.findall(explained)) == flags

"""A benchmark, run as `infill-ls bench` runs it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from inference.bench.__main__ import main

Measured = Callable[..., dict[str, Any]]


@pytest.fixture
def measured(capsys: pytest.CaptureFixture[str]) -> Measured:
    """Runs a benchmark by its name and flags; what its last line of output says."""

    def run(*words: object) -> dict[str, Any]:
        assert main([*map(str, words)]) == 0
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return run

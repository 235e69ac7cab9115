"""The benchmarks that play an editor: with a real server, and its worker or one that answers at once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.inference.bench.conftest import Measured

COMMAND = [sys.executable, "-m", "lsp_server.cli", "bench", "server"]
SCENARIOS = Path(__file__).parents[2] / "data" / "edit_models"


def test_each_kind_of_keystroke_is_measured() -> None:
    command = [*COMMAND, "--lines", "200", "--keystrokes", "200"]
    result = json.loads(subprocess.check_output(command, text=True).splitlines()[-1])
    assert result["lines"] == pytest.approx(200, abs=10)
    floor = result["sections"].pop("no_op")
    assert set(result["sections"]) == {"remembered", "asked"}
    for section in result["sections"].values():
        assert 0 < section["p50"] <= section["p95"]
        assert section["own_p95"] == pytest.approx(section["p95"] - floor["p95"], abs=0.002)


@pytest.mark.parametrize("wrong", ["0", "-5", "many", "1e3"])
def test_a_count_that_is_not_a_sensible_number_is_refused(wrong: str) -> None:
    done = subprocess.run([*COMMAND, f"--keystrokes={wrong}"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "not a number" in done.stderr


def test_a_case_that_needs_edits_and_a_quiet_one_are_played(measured: Measured) -> None:
    """With the syntax alone."""
    found = measured("next-edit", "--limit", 1)
    assert (found["cases"], found["quiet_cases"]) == (1, 1)
    assert found["needed_places"] >= 1
    assert 0 <= found["precision"] <= 1
    assert found["false_offers"] in (0, 1)


@pytest.mark.parametrize(("model", "is_quiet"), [("zeta-2", 1.0), ("zeta", 0.5), ("sweep-next-edit-1.5B", 0.5)])
def test_offers_are_as_good_as_the_rewrites(model: str, is_quiet: float, measured: Measured) -> None:
    """Recorded answers of edit models."""
    recorded = SCENARIOS / "recorded.jsonl"
    found = measured("edit-models", "--scenarios", SCENARIOS, "--recorded", recorded, "--model", model)
    assert found["raw_score"] > 0.7 and found["score"] >= found["raw_score"]
    assert (found["quiet"], found["raw_quiet"]) == (1.0, is_quiet)

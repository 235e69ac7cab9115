"""Recorded answers of edit models, replayed through a real server, its worker and HTTP."""

import json
from pathlib import Path

import pytest

from inference.bench import edit_models

FOLDER = Path(__file__).parents[2] / "data" / "edit_models"


@pytest.mark.parametrize(("model", "is_quiet"), [("zeta-2", 1.0), ("zeta", 0.5), ("sweep-next-edit-1.5B", 0.5)])
def test_offers_are_as_good_as_the_rewrites(model: str, is_quiet: float, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--scenarios", str(FOLDER), "--recorded", str(FOLDER / "recorded.jsonl"), "--model", model]
    assert edit_models.main(flags) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["raw_score"] > 0.7 and found["score"] >= found["raw_score"]
    assert (found["quiet"], found["raw_quiet"]) == (1.0, is_quiet)

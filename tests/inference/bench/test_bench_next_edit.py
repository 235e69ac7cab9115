"""The next edit benchmark plays an author against a real server."""

import json

import pytest

from inference.bench import next_edit


def test_a_case_that_needs_edits_and_a_quiet_one_are_played(capsys: pytest.CaptureFixture[str]) -> None:
    """With the syntax alone."""
    assert next_edit.main(["--limit", "1"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["cases"], found["quiet_cases"]) == (1, 1)
    assert found["needed_places"] >= 1
    assert 0 <= found["precision"] <= 1
    assert found["false_offers"] in (0, 1)

"""The next edit benchmark: the results it saves, and reuses in the next run."""

import json
from pathlib import Path
from typing import Any

import pytest

from inference.bench import next_edit


def played(file: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert next_edit.main(["--limit", "1", "--resume", str(file)]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_known_results_are_not_played_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the syntax alone of a real server."""
    file = tmp_path / "results.jsonl"
    first = played(file, capsys)
    assert (first["cases"], first["quiet_cases"]) == (1, 1)
    edit, quiet = (json.loads(line) for line in file.read_text().splitlines())
    file.write_text(json.dumps(edit | {"offers": [True] * 9}) + "\n")
    again = played(file, capsys)
    assert (again["offers"], again["needless"]) == (9, first["needless"])
    assert json.loads(file.read_text().splitlines()[1])["offers"] == quiet["offers"]

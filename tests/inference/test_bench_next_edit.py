"""The next edit benchmark: the results it saves, and reuses in the next run."""

import json
from pathlib import Path
from typing import Any

import pytest

from inference.bench import next_edit


def played(file: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert next_edit.main(["--ask", "quiet", "--limit", "2", "--resume", str(file)]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


def test_known_results_are_not_played_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.jsonl"
    first = played(file, capsys)
    assert (first["cases"], first["quiet_cases"], first["offers"]) == (2, 2, 0)
    known = [json.loads(line) | {"offers": [True]} for line in file.read_text().splitlines()]
    assert len(known) == 4
    file.write_text("".join(json.dumps(one) + "\n" for one in known[:3]))
    again = played(file, capsys)
    assert (again["offers"], again["quiet_cases"], again["needless"]) == (2, 2, 0.5)
    assert len(file.read_text().splitlines()) == 4

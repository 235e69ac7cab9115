"""The benchmark of the search for causal models: its tasks are cut out as specified, and every way is measured."""

import json
from pathlib import Path

import pytest

from inference.bench import infilling_middle, infilling_tasks

DATA = Path(__file__).parents[2] / "data"
TUNING = DATA / "tuning.jsonl.gz"


def test_joint_tasks_are_ends_of_lines_of_one_text() -> None:
    tasks = infilling_tasks.read(TUNING)
    whole = [task.prompt + task.canonical_solution + task.suffix for task in tasks]
    found = infilling_middle.joint_tasks(tasks, 40, 1)
    assert len(found) == 40
    for one in found:
        parts = [part for pair in zip(one.texts, one.solutions, strict=False) for part in pair]
        assert "".join([*parts, one.texts[-1]]) in whole
        assert 2 <= len(one.solutions) <= 4
        assert not any("\n" in solution for solution in one.solutions)
        assert all(text.startswith("\n") for text in one.texts[1:])
    assert found == infilling_middle.joint_tasks(tasks, 40, 1)


@pytest.mark.parametrize(("what", "ways"), [("cut", 4), ("joint", 5)])
def test_every_way_is_measured(what: str, ways: int, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--what", what, "--data", str(TUNING), "--limit", "2", "--model", str(DATA / "fim")]
    assert infilling_middle.main(arguments) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["tasks"] == 2
    shares = found["exact" if what == "cut" else "exact_holes"]
    assert len(shares) == ways
    assert all(0 <= share <= 1 for share in shares.values())
    assert found["tokens_per_pass"] >= 1

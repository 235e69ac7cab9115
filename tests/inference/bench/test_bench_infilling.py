"""The infilling benchmark: its tasks, its scores, and the commands as a user runs them."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.bench import BenchError, infilling, infilling_tasks
from inference.bench.infilling_tasks import InfillingTask
from tests.inference.models import random_masked

HELD_OUT = Path(__file__).parents[2] / "data" / "held_out.jsonl.gz"
ADD = InfillingTask(
    "SingleLineInfilling/0",
    prompt='def add(a, b):\n    """The sum."""\n',
    suffix="    return total\n",
    canonical_solution="    total = a + b\n",
)


def test_final_line_break_is_pinned() -> None:
    assert ADD.before + ADD.solution + ADD.after == ADD.prompt + ADD.canonical_solution + ADD.suffix
    assert ADD.solution == "    total = a + b"
    assert ADD.single_line


@given(st.text("ab \n"))
def test_pinned_parts_always_add_up(solution: str) -> None:
    task = InfillingTask("t", "p", "s", solution)
    assert task.before + task.solution + task.after == "p" + solution + "s"


def test_white_space_at_the_ends_does_not_count() -> None:
    assert infilling_tasks.exact("  x = 1\n", "x = 1")
    assert not infilling_tasks.exact("x  = 1", "x = 1")
    assert infilling_tasks.edit_similarity(" abcd", "abxd\n") == 0.75
    assert infilling_tasks.edit_similarity("", " ") == 1.0


@given(one=st.text("abc"), other=st.text("abc"))
def test_edit_similarity_is_symmetric_and_one_only_for_equals(one: str, other: str) -> None:
    value = infilling_tasks.edit_similarity(one, other)
    assert value == infilling_tasks.edit_similarity(other, one)
    assert 0.0 <= value <= 1.0
    assert (value == 1.0) == (one == other)


def test_a_broken_file_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"task_id": "a", "prompt": "", "suffix": "", "canonical_solution": "x"}\n{"task_id": 1}\n')
    assert infilling_tasks.read(file, limit=1)[0].task_id == "a"
    with pytest.raises(BenchError, match="line 2"):
        infilling_tasks.read(file)
    with pytest.raises(BenchError, match="cannot be read"):
        infilling_tasks.read(tmp_path / "none.jsonl")


def test_bidirectional_model_is_measured_on_canvases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random_masked.save_open_dcoder(tmp_path)
    given = ["--data", str(HELD_OUT), "--limit", "1", "--model", str(tmp_path)]
    assert infilling.main(given) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["tasks"] == 1


def test_a_sample_is_picked_by_a_seed() -> None:
    tasks = infilling_tasks.read(HELD_OUT)
    three = infilling_tasks.sample(tasks, 3, 5)
    assert three == infilling_tasks.sample(tasks, 3, 5) != infilling_tasks.sample(tasks, 3, 6)


def test_command_writes_predictions_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    predictions = tmp_path / "predictions.jsonl"
    words = ["--data", str(HELD_OUT), "--limit", "3", "--predictions", str(predictions)]
    assert infilling.main(words) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["tasks"] == 3
    assert {"exact", "edit_similarity", "mean_ms", "p50_ms"} < result.keys()
    written = [json.loads(line) for line in predictions.read_text().splitlines()]
    assert all(one["steps"] <= 32 for one in written)
    assert [one["task_id"] for one in written] == [task.task_id for task in infilling_tasks.read(HELD_OUT, 3)]


def test_the_held_out_file_is_small_and_says_what_it_is() -> None:
    tasks, others = infilling_tasks.read(HELD_OUT), infilling_tasks.read(HELD_OUT.with_name("tuning.jsonl.gz"))
    assert HELD_OUT.stat().st_size < 600_000
    assert len({task.task_id for task in tasks}) == len(tasks) == 1045
    assert sum(task.single_line for task in tasks) > 800
    assert not any("human_eval" in (task.prompt + task.suffix).lower() for task in tasks)
    files = [{task.task_id.partition("/")[2].rpartition(":")[0] for task in some} for some in (tasks, others)]
    assert not files[0] & files[1], "settings are chosen by files that the told numbers are not from"

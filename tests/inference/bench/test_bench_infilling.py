"""The infilling benchmark: its tasks, its scores, and the commands as a user runs them."""

import json
import statistics
from pathlib import Path

import pytest

from inference.bench import BenchError, infilling_tasks
from inference.bench.infilling import engine_filler
from inference.bench.infilling_tasks import InfillingTask, TaskResult, cut_summary
from inference.engine.engine import Engine
from tests.inference.bench.conftest import Measured

DATA = Path(__file__).parents[2] / "data"
HELD_OUT = DATA / "held_out.jsonl.gz"
OTHER_FILES = DATA / "other_files.jsonl.gz"
FIM = DATA / "fim"
HALVES = ("tuning", "report")
ADD = InfillingTask(
    "SingleLineInfilling/0",
    prompt='def add(a, b):\n    """The sum."""\n',
    suffix="    return total\n",
    canonical_solution="    total = a + b\n",
)


def test_final_line_break_is_pinned() -> None:
    assert ADD.prefix + ADD.solution + ADD.suffix_text == ADD.prompt + ADD.canonical_solution + ADD.suffix
    assert ADD.solution == "    total = a + b"
    assert ADD.single_line


def test_white_space_at_the_ends_does_not_count() -> None:
    assert infilling_tasks.edit_similarity("  x = 1\n", "x = 1") == 1.0
    assert infilling_tasks.edit_similarity("x  = 1", "x = 1") < 1.0
    assert infilling_tasks.edit_similarity(" abcd", "abxd\n") == 0.75
    assert infilling_tasks.edit_similarity("", " ") == 1.0


def test_a_broken_file_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"task_id": "a", "prompt": "", "suffix": "", "canonical_solution": "x"}\n{"task_id": 1}\n')
    assert infilling_tasks.read_tasks(file, limit=1)[0].task_id == "a"
    with pytest.raises(BenchError, match="line 2"):
        infilling_tasks.read_tasks(file)
    with pytest.raises(BenchError, match="cannot be read"):
        infilling_tasks.read_tasks(tmp_path / "none.jsonl")


def test_a_sample_is_picked_by_a_seed() -> None:
    tasks = infilling_tasks.read_tasks(HELD_OUT)
    three = infilling_tasks.sample_tasks(tasks, 3, 5)
    assert three == infilling_tasks.sample_tasks(tasks, 3, 5) != infilling_tasks.sample_tasks(tasks, 3, 6)
    assert infilling_tasks.sample_tasks(tasks, None, 5) == infilling_tasks.sample_tasks(tasks, 2000, 5) == tasks


def test_command_writes_predictions_and_json(tmp_path: Path, measured: Measured) -> None:
    predictions = tmp_path / "predictions.jsonl"
    result = measured("infilling", "--data", HELD_OUT, "--limit", 3, "--predictions", predictions)
    assert result["tasks"] == 3
    assert {"exact", "edit_similarity", "mean_ms", "p50_ms"} < result.keys()
    written = [json.loads(line) for line in predictions.read_text().splitlines()]
    assert all(one["steps"] <= 32 for one in written)
    assert [one["task_id"] for one in written] == [task.task_id for task in infilling_tasks.read_tasks(HELD_OUT, 3)]


def test_pieces_of_other_files_are_shown_or_hidden(tmp_path: Path, measured: Measured) -> None:
    read = []
    for flags in ((), ("--no-context",)):
        words = ("--data", OTHER_FILES, "--limit", 1, "--model", FIM, "--predictions", tmp_path / "fills.jsonl")
        measured("infilling", *words, *flags)
        read.append(json.loads((tmp_path / "fills.jsonl").read_bytes())["prompt_tokens"])
    assert read[0] > read[1]


FLOOR = 0.42
"""Catches a broken sampler, constraint, healing or checkpoint, not a slightly worse one. Measure it again for a new
checkpoint.
"""


def test_fills_come_near_the_truth(embedded: Engine) -> None:
    """The embedded checkpoint fills unseen lines about as well as when it was committed."""
    tasks = [task for task in infilling_tasks.read_tasks(HELD_OUT) if task.single_line][:40]
    fills = [*map(engine_filler(embedded), tasks)]
    assert statistics.fmean(fill.edit_similarity for fill in fills) > FLOOR
    chosen = sum(fill.tokens for fill in fills)
    true = sum(len(embedded.loaded.vocabulary.encode(task.solution)) for task in tasks)
    assert 0.5 * true < chosen < 1.8 * true, "lengths"


def test_cuts_are_compared_on_the_same_fills(tmp_path: Path, measured: Measured) -> None:
    flags = ("--data", HELD_OUT, "--sample", 4, "--predictions", tmp_path / "fills.jsonl", "--model", FIM)
    two = measured("infilling", *flags, "--cut", 0, "--cut", 1.0)
    written = (tmp_path / "fills.jsonl").read_text()
    assert written.count("\n") == two["kinds"]["all"]["0.0"]["holes"] == 4
    assert two["kinds"]["all"]["0.0"]["shown"] > two["kinds"]["all"]["1.0"]["shown"]


def test_a_cut_is_right_as_far_as_it_goes() -> None:
    fills = (("total", " =", " a", " +", " c"), ("total", "s", " = a"), ("total", " = a + b"))
    probs = ((0.9, 0.9, 0.9, 0.9, 0.2), (0.4, 0.9, 0.9), (0.9, 0.4))
    results = [
        TaskResult.from_fill(ADD, "    " + "".join(pieces), 0.0, pieces=("    ", *pieces), probs=(1.0, *sure))
        for pieces, sure in zip(fills, probs, strict=True)
    ]
    whole, cut = (cut_summary([ADD] * 3, results, min_prob) for min_prob in (0.0, 0.5))
    assert [result.confident_start(ADD, 0.5).strip() for result in results] == ["total = a", "", "total"]
    assert (whole["shown"], whole["right"], whole["whole"]) == (1.0, 0.3333, 0.3333)
    assert (cut["shown"], cut["right"], cut["whole"]) == (0.6667, 1.0, 0.0)
    assert (cut["right_characters"], cut["characters"]) == (4.6667, 4.6667)


def test_halves_are_of_files() -> None:
    tasks = infilling_tasks.read_tasks(HELD_OUT)
    halves = {half: {task.task_id.rpartition(":")[0] for task in tasks if task.is_in_half(half)} for half in HALVES}
    assert not halves["tuning"] & halves["report"]
    assert min(map(len, halves.values())) > 100
    assert ADD.is_correct_start(" total = a + b\n    return") and not ADD.is_correct_start("tot")

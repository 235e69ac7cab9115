"""The infilling benchmark: its tasks, its scores, and the commands as a user runs them."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.bench import infilling, infilling_table, infilling_tasks
from inference.bench.infilling import SolveOptions, Solver
from inference.bench.infilling_tasks import InfillingTask, TaskError
from inference.engine import Engine
from inference.engine.infilling import Infilling
from inference.engine.middle.infilling import MiddleInfilling
from inference.messages import InfillRequest, Text
from tests.inference.models import random_masked

HELD_OUT = Path(__file__).parents[2] / "data" / "held_out.jsonl.gz"
ADD = InfillingTask(
    "SingleLineInfilling/0",
    prompt='def add(a, b):\n    """The sum."""\n',
    suffix="    return total\n",
    canonical_solution="    total = a + b\n",
)


@pytest.fixture(scope="module")
def engine(embedded: Engine) -> Engine:
    return embedded


def test_final_line_break_is_pinned() -> None:
    parts = ADD.parts
    assert (parts.before + parts.solution + parts.after) == ADD.prompt + ADD.canonical_solution + ADD.suffix
    assert parts.solution == "    total = a + b"
    assert ADD.single_line
    assert parts.completion("    x") == "    x\n"


@given(st.text("ab \n"))
def test_pinned_parts_always_add_up(solution: str) -> None:
    parts = InfillingTask("t", "p", "s", solution).parts
    assert parts.completion(parts.solution) == solution


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
    with pytest.raises(TaskError, match="line 2"):
        infilling_tasks.read(file)
    with pytest.raises(TaskError, match="cannot be read"):
        infilling_tasks.read(tmp_path / "none.jsonl")


def test_the_true_length_is_counted_as_the_planner_tokenizes(engine: Engine) -> None:
    """At the true length, the canonical solution is one of the fills the canvas can hold."""
    vocabulary = engine.loaded.vocabulary
    room = engine.loaded.properties.canvas_tokens - 16
    solver, counted = Solver(engine, SolveOptions(length="oracle", steps=4)), 0
    for task in infilling_tasks.read(HELD_OUT, 12):
        parts, fill = task.parts, solver.fill(task)
        assert fill.tokens in (0, min(fill.true_tokens, room)), "nothing where it repeats itself"
        counted += fill.tokens > 0
        whole = vocabulary.encode(parts.before + parts.solution)
        assert abs(len(whole) - len(vocabulary.encode(parts.before)) + 1 - fill.true_tokens) <= 2
    assert counted >= 6


def test_bidirectional_model_is_measured_on_canvases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table leaves out the ways it does not have."""
    random_masked.save_open_dcoder(tmp_path)
    given = ["--data", str(HELD_OUT), "--limit", "1", "--model", str(tmp_path)]
    assert infilling.main([*given, "--length", "oracle", "--steps", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tasks"] == 1
    assert infilling_table.main(given) == 0
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])["kinds"]["all"]["rows"]
    assert list(rows) == [f"{tmp_path}: length chosen", f"{tmp_path}: true length"]


def test_examples_are_picked_by_a_seed_and_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    tasks = infilling_tasks.read(HELD_OUT)
    three = infilling_table.sample(tasks, 3, 5)
    assert three == infilling_table.sample(tasks, 3, 5) != infilling_table.sample(tasks, 3, 6)
    assert infilling_table.main(["--data", str(HELD_OUT), "--sample", "3", "--seed", "5", "--examples"]) == 0
    rows = capsys.readouterr().out.strip().splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == [f"| {task.kind}" for task in three]
    assert all(row.count(" | ") >= 5 for row in rows)


def test_the_canvas_alone_does_without_the_encoder(engine: Engine) -> None:
    """A canvas is given one step here; what the encoder writes takes one a token."""
    both, alone = (Solver(engine, SolveOptions(steps=1, continuations=wanted)) for wanted in (True, False))
    tasks = [task for task in infilling_tasks.read(HELD_OUT, 16) if task.single_line]
    assert any(both.fill(task).steps > 1 for task in tasks)
    assert all(alone.fill(task).steps == 1 for task in tasks)


class AskedEngine(Engine):
    """Records the requests."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.loaded)
        self.asked: list[InfillRequest] = []

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> Infilling | MiddleInfilling:
        self.asked.append(request)
        return super().infill(request, deadline=deadline)


def test_what_is_typed_first_is_asked_at_each_character(middle: Engine) -> None:
    engine = AskedEngine(middle)
    typed = Solver(engine, SolveOptions(typed=3)).fill(ADD)
    before = [request.segments[0] for request in engine.asked]
    assert before == [Text(ADD.prompt[: len(ADD.prompt) - missing]) for missing in (3, 2, 1, 0)]
    assert [request.quick for request in engine.asked] == [True, True, True, False]
    assert typed.text == Solver(middle, SolveOptions()).fill(ADD).text


def test_command_writes_predictions_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    predictions = tmp_path / "predictions.jsonl"
    words = ["--data", str(HELD_OUT), "--limit", "3", "--steps", "2", "--predictions", str(predictions)]
    assert infilling.main(words) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["tasks"] == 3
    assert {"exact", "edit_similarity", "mean_ms", "p50_ms"} < result.keys()
    written = [json.loads(line) for line in predictions.read_text().splitlines()]
    assert all(one["steps"] <= 2 or one["steps"] == one["tokens"] for one in written), "steps, or the encoder's tokens"
    assert [one["task_id"] for one in written] == [task.task_id for task in infilling_tasks.read(HELD_OUT, 3)]
    assert all("completion" in one for one in written)


def test_the_held_out_file_is_small_and_says_what_it_is() -> None:
    tasks, others = infilling_tasks.read(HELD_OUT), infilling_tasks.read(HELD_OUT.with_name("tuning.jsonl.gz"))
    assert HELD_OUT.stat().st_size < 600_000
    assert len({task.task_id for task in tasks}) == len(tasks) == 1045
    assert sum(task.single_line for task in tasks) > 800
    assert not any("human_eval" in (task.prompt + task.suffix).lower() for task in tasks)
    files = [{task.task_id.partition("/")[2].rpartition(":")[0] for task in some} for some in (tasks, others)]
    assert not files[0] & files[1], "settings are chosen by files that the told numbers are not from"


def test_the_table_has_a_part_for_each_kind_and_one_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--limit", "6", "--sample", "3", "--seed", "4", "--steps", "1"]
    assert infilling_table.main(["--data", str(HELD_OUT), *flags]) == 0
    *lines, data = capsys.readouterr().out.splitlines()
    kinds = json.loads(data)["kinds"]
    chosen = infilling_table.sample(infilling_tasks.read(HELD_OUT, 6), 3, 4)
    assert list(kinds) == [*dict.fromkeys(task.kind for task in chosen), "all"]
    heads = [line.split(" | ")[0] for line in lines if " tasks of " in line]
    assert heads[-1] == f"| 3 tasks of {len({task.file for task in chosen})} files, all"
    ways = ["length chosen", "length chosen, without copying", "true length", "length chosen, canvas alone"]
    ways += ["length chosen, 1 step", "true length, 1 step"]
    assert list(kinds["all"]["rows"]) == [f"embedded: {way}" for way in ways]
    true = {kind: part["rows"]["embedded: true length"]["edit_similarity"][0] for kind, part in kinds.items()}
    weighted = sum(true[kind] * kinds[kind]["tasks"] for kind in true if kind != "all")
    assert true["all"] == pytest.approx(weighted / 3, abs=1e-3)


def test_two_models_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    masked = HELD_OUT.parent / "masked"
    models = ["--model", "embedded", "--model", str(masked)]
    assert infilling_table.main(["--data", str(HELD_OUT), "--limit", "2", *models]) == 0
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])["kinds"]["all"]["rows"]
    assert f"{masked}: true length" in rows
    difference = rows[f"{masked} - embedded: length chosen"]["edit_similarity"][0]
    both = [rows[f"{model}: length chosen"]["edit_similarity"][0] for model in (masked, "embedded")]
    assert difference == pytest.approx(both[0] - both[1], abs=1e-3)


def test_errors_know_that_tasks_of_a_file_resemble_each_other() -> None:
    values, apart = [1.0, 1.0, 0.0, 0.0], infilling_table.mean([1.0, 1.0, 0.0, 0.0], list("abcd"))
    assert apart == pytest.approx((0.5, 1 / 12**0.5), abs=1e-4), "as if no file were named"
    assert infilling_table.mean(values, list("aabb")) == pytest.approx((0.5, 0.5), abs=1e-4)
    assert infilling_table.ratio(values, [1.0, 2.0, 1.0, 0.0], list("aabb")).value == 0.5
    assert infilling_table.mean(values, list("aaaa")) == (0.5, 0.0)

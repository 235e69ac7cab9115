"""The infilling benchmark: its tasks, its scores, its programs, and the commands as a user runs them."""

import gzip
import json
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.bench import (
    clustered,
    infilling,
    infilling_examples,
    infilling_execute,
    infilling_scores,
    infilling_table,
    infilling_tasks,
    make_data,
)
from inference.bench.infilling_execute import ProgramLimits
from inference.bench.infilling_solve import SolveOptions, Solver
from inference.bench.infilling_tasks import InfillingTask, TaskError
from inference.engine import Engine
from tests.inference.models import random_masked

HELD_OUT = Path(__file__).parent.parent / "data" / "held_out.jsonl.gz"
ADD = InfillingTask(
    "SingleLineInfilling/0",
    prompt='def add(a, b):\n    """The sum."""\n',
    suffix="    return total\n",
    canonical_solution="    total = a + b\n",
    test="def check(candidate):\n    assert candidate(1, 2) == 3\n",
    entry_point="add",
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
    assert infilling_scores.exact("  x = 1\n", "x = 1")
    assert not infilling_scores.exact("x  = 1", "x = 1")
    assert infilling_scores.edit_similarity(" abcd", "abxd\n") == 0.75
    assert infilling_scores.edit_similarity("", " ") == 1.0


@given(one=st.text("abc"), other=st.text("abc"))
def test_edit_similarity_is_symmetric_and_one_only_for_equals(one: str, other: str) -> None:
    value = infilling_scores.edit_similarity(one, other)
    assert value == infilling_scores.edit_similarity(other, one)
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


def test_from_left_to_right_a_line_ends_with_its_line(engine: Engine) -> None:
    solver = Solver(engine, SolveOptions(left_to_right=True))
    tasks = [task for task in infilling_tasks.read(HELD_OUT, 8) if task.single_line]
    fills = [solver.fill(task) for task in tasks]
    assert not any("\n" in fill.text for fill in fills)
    assert all(fill.steps == fill.tokens for fill in fills)


def test_bidirectional_model_is_measured_on_canvases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From left to right it is refused with a reason, and the table leaves that row out."""
    random_masked.save_open_dcoder(tmp_path)
    given = ["--data", str(HELD_OUT), "--limit", "1", "--model", str(tmp_path)]
    assert infilling.main([*given, "--length", "oracle", "--steps", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tasks"] == 1
    assert infilling.main([*given, "--mode", "left-to-right"]) == 2
    assert "was not trained to write from left to right" in capsys.readouterr().err
    assert infilling_table.main(given) == 0
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])["kinds"]["all"]["rows"]
    assert list(rows) == [f"{tmp_path}: length chosen", f"{tmp_path}: true length"]


def test_examples_are_picked_by_a_seed_and_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    tasks = infilling_tasks.read(HELD_OUT)
    three = infilling_examples.picked(tasks, 3, 5)
    assert three == infilling_examples.picked(tasks, 3, 5) != infilling_examples.picked(tasks, 3, 6)
    assert infilling_examples.main(["--data", str(HELD_OUT), "--count", "3", "--pick", "5"]) == 0
    rows = capsys.readouterr().out.strip().splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == [f"| {task.kind}" for task in three]
    assert all(row.count(" | ") >= 5 for row in rows)


def test_the_canvas_alone_does_without_the_encoder(engine: Engine) -> None:
    """A canvas is given one step here; what the encoder writes takes one a token."""
    both, alone = (Solver(engine, SolveOptions(steps=1, continuations=wanted)) for wanted in (True, False))
    tasks = [task for task in infilling_tasks.read(HELD_OUT, 16) if task.single_line]
    assert any(both.fill(task).steps > 1 for task in tasks)
    assert all(alone.fill(task).steps == 1 for task in tasks)


def test_a_program_passes_only_if_it_ends_well() -> None:
    assert infilling_execute.passes(infilling_execute.program(ADD, ADD.canonical_solution))
    assert not infilling_execute.passes(infilling_execute.program(ADD, "    total = a - b\n"))
    assert not infilling_execute.passes(infilling_execute.program(ADD, "    raise SystemExit(0)\n"))
    assert not infilling_execute.passes(infilling_execute.program(ADD, "    import os; os._exit(0)\n"))
    assert not infilling_execute.passes("def (")


def test_a_program_that_takes_too_long_or_too_much_is_stopped() -> None:
    began = time.monotonic()
    assert not infilling_execute.passes("import time\ntime.sleep(60)", ProgramLimits(wall_s=1.0))
    assert time.monotonic() - began < 20
    assert not infilling_execute.passes("x = bytearray(4 << 30)")
    assert not infilling_execute.passes("open('big', 'wb').write(bytes(4 << 20))")


def test_a_program_sees_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SECRET", "1")
    assert infilling_execute.passes(
        "import os\nassert 'SOME_SECRET' not in os.environ\nassert os.listdir() != ['infill']"
    )


@pytest.mark.skipif(
    "CANNOT" in infilling_execute.warning(), reason="this machine does not let users cut off the network"
)
def test_a_program_has_no_network() -> None:
    program = """
        import socket
        try:
            socket.create_connection(("127.0.0.1", 9), 1)
        except OSError as error:
            assert error.errno == 101, error  # unreachable, not refused
        else:
            raise AssertionError
    """
    assert infilling_execute.passes(dedent(program))


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


def test_code_is_run_only_when_asked_for_and_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tasks.jsonl"
    infilling_tasks.write(file, [ADD])
    quick = ["--data", str(file), "--steps", "1", "--json"]
    assert infilling.main([*quick, "--execute"]) == 0
    executed = capsys.readouterr()
    assert "runs code that a model wrote" in executed.err
    assert json.loads(executed.out)["pass_at_1"] in (0.0, 1.0)
    assert infilling.main(quick) == 0
    assert "pass_at_1" not in json.loads(capsys.readouterr().out)
    assert infilling.main(["--data", str(HELD_OUT), "--limit", "1", "--execute"]) == 2
    assert "no test and entry_point" in capsys.readouterr().err


def tree(folder: Path) -> Path:
    """A small source tree, one of whose files comes twice."""
    code = dedent('''
        """A module."""


        def total(values):
            """The sum, the slow way."""
            result = 0
            for value in values:
                result += value
            return result


        class Café:
            name = "crème"  # a comment

            def greet(self, other):
                text = f"{self.name} greets {other}"
                print(text)
                return text
        ''')
    (folder / "one.py").write_text(code)
    (folder / "copy.py").write_text(code + "\n")
    (folder / "broken.py").write_text("def f(:\n" * 40)
    (folder / "two.py").write_text(code.replace("value", "item").replace("text", "line").replace("Café", "Bar") * 4)
    return folder


def test_carved_tasks_are_whole_deterministic_and_no_copies(tmp_path: Path) -> None:
    source, outs = tree(tmp_path), [tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"]
    words = [str(source), "--seed", "3", "--out"]
    assert make_data.main([*words, str(outs[0])]) == 0
    command = [sys.executable, "-m", "lsp_server.cli", "bench", "make-data", *words, str(outs[1])]
    subprocess.run(command, capture_output=True, check=True)
    assert outs[0].read_bytes() == gzip.decompress(outs[1].read_bytes())
    tasks = infilling_tasks.read(outs[0])
    texts = [file.read_text() for file in source.glob("*.py")]
    assert all(task.prompt + task.canonical_solution + task.suffix in texts for task in tasks)
    assert all(task.single_line == (task.kind in ("line", "span")) for task in tasks)
    assert len({task.task_id.split("/")[1].split(":")[0] for task in tasks} & {"one.py", "copy.py"}) == 1


def test_long_files_are_cut_at_line_ends(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("".join(f"name_{number} = call(number, {number})\n" for number in range(400)))
    out = tmp_path / "out.jsonl"
    limits = ["--prompt-characters", "200", "--suffix-characters", "100"]
    assert make_data.main([str(tmp_path), "--out", str(out), *limits]) == 0
    for task in infilling_tasks.read(out):
        assert len(task.prompt) <= 200
        assert len(task.suffix) <= 100
        assert task.prompt.startswith("name_")
        assert task.suffix.endswith("\n")


def test_a_span_has_some_of_its_line_on_either_side(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert make_data.main([str(tree(tmp_path)), "--out", str(out), "--kinds", "span"]) == 0
    for task in infilling_tasks.read(out):
        assert task.prompt.rpartition("\n")[2].strip()
        assert task.suffix.partition("\n")[0].strip()


def test_the_held_out_file_is_small_and_says_what_it_is() -> None:
    tasks, others = infilling_tasks.read(HELD_OUT), infilling_tasks.read(HELD_OUT.with_name("tuning.jsonl.gz"))
    assert HELD_OUT.stat().st_size < 600_000
    assert len({task.task_id for task in tasks}) == len(tasks) == 1045
    assert sum(task.single_line for task in tasks) > 800
    assert not any("human_eval" in (task.prompt + task.suffix).lower() for task in tasks)
    files = [{task.task_id.partition("/")[2].rpartition(":")[0] for task in some} for some in (tasks, others)]
    assert not files[0] & files[1], "settings are chosen by files that the told numbers are not from"


def test_the_table_has_a_part_for_each_kind_and_one_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    """By two processes, which share the tasks out."""
    flags = ["--limit", "6", "--sample", "3", "--seed", "4", "--steps", "1", "--processes", "2"]
    assert infilling_table.main(["--data", str(HELD_OUT), *flags]) == 0
    *lines, data = capsys.readouterr().out.splitlines()
    kinds = json.loads(data)["kinds"]
    chosen = infilling_table.sample(infilling_tasks.read(HELD_OUT, 6), 3, 4)
    assert list(kinds) == [*dict.fromkeys(task.kind for task in chosen), "all"]
    heads = [line.split(" | ")[0] for line in lines if " tasks of " in line]
    assert heads[-1] == f"| 3 tasks of {len({task.file for task in chosen})} files, all"
    ways = ["length chosen", "length chosen, without copying", "true length", "length chosen, canvas alone"]
    ways += ["left to right, prefix only", "length chosen, 1 step", "true length, 1 step"]
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
    assert f"{masked}: left to right, prefix only" not in rows, "it cannot"
    difference = rows[f"{masked} - embedded: length chosen"]["edit_similarity"][0]
    both = [rows[f"{model}: length chosen"]["edit_similarity"][0] for model in (masked, "embedded")]
    assert difference == pytest.approx(both[0] - both[1], abs=1e-3)


def test_errors_know_that_tasks_of_a_file_resemble_each_other() -> None:
    values, apart = [1.0, 1.0, 0.0, 0.0], clustered.mean([1.0, 1.0, 0.0, 0.0], list("abcd"))
    assert apart == pytest.approx((0.5, 1 / 12**0.5), abs=1e-4), "as if no file were named"
    assert clustered.mean(values, list("aabb")) == pytest.approx((0.5, 0.5), abs=1e-4)
    assert clustered.ratio(values, [1.0, 2.0, 1.0, 0.0], list("aabb")).value == 0.5
    assert clustered.mean(values, list("aaaa")) == (0.5, 0.0)

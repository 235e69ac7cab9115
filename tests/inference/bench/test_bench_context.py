"""What other files in a prompt are worth, measured by the command as a user runs it."""

import json
from pathlib import Path

import pytest

from inference.bench import infilling, infilling_tasks
from inference.bench.context import ContextTask

DATA = Path(__file__).parents[2] / "data"
OTHER_FILES = DATA / "other_files.jsonl.gz"


def test_a_run_goes_on_where_the_last_one_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fills = tmp_path / "fills.jsonl"
    words = ["--data", str(OTHER_FILES), "--model", str(DATA / "fim"), "--predictions", str(fills)]
    arms = [word for arm in ("none", "today", "pieces-256", "pieces-512-repo") for word in ("--context", arm)]
    assert infilling.main([*words, "--limit", "1", *arms]) == 0
    first = fills.read_bytes()
    capsys.readouterr()
    assert infilling.main([*words, "--limit", "2", *arms]) == 0
    assert fills.read_bytes().startswith(first)
    written = [json.loads(line) for line in fills.read_bytes().splitlines()]
    assert [one["arm"] for one in written] == ["none", "today", "pieces-256", "pieces-512-repo"] * 4  # of two kinds
    shown = json.loads(capsys.readouterr().out)["kinds"]["other"]
    assert shown["none"]["won"] == shown["none"]["lost"] == 0
    assert shown["none"]["prompt_tokens"] < shown["pieces-256"]["prompt_tokens"]
    fills.write_text("nothing\n")
    assert infilling.main([*words, "--limit", "1", *arms]) == 2
    assert "fills.jsonl" in capsys.readouterr().err


def test_the_holes_that_need_other_files_say_what_to_show() -> None:
    tasks = infilling_tasks.read_as(ContextTask, OTHER_FILES)
    halves = {half: [task for task in tasks if task.half == half] for half in ("tuning", "report")}
    assert all(sum(task.kind == "other" for task in some) >= 120 for some in halves.values())
    assert all(sum(task.kind == "own" for task in some) >= 60 for some in halves.values())
    packages = [{task.task_id.split("/")[1] for task in some} for some in halves.values()]
    assert not packages[0] & packages[1], "settings are chosen by packages that the told numbers are not from"
    assert len({task.task_id.rpartition(":")[0] for task in tasks}) == len(tasks)
    assert all(piece.path != task.path for task in tasks for piece in task.pieces)

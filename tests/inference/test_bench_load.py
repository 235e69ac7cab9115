"""`infill-ls bench load`: simulated typists with real sessions, a real server and a real worker."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from inference.bench import load_record, load_report
from inference.bench.load_editor import Request
from inference.bench.load_typist import recordings
from tests.workers import PATIENCE_S

ROOT = Path(__file__).parents[2]


def test_three_who_type_get_one_answer_to_each_request(tmp_path: Path) -> None:
    plot = tmp_path / "load.svg"
    words = [sys.executable, "-m", "lsp_server.cli", "bench", "load", "--clients", "3", "--seconds", "10"]
    words += ["--device", "cpu", "--plot", str(plot)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["clients"], found["unanswered"], found["answered_twice"], found["errors"]) == (3, 0, 0, 0)
    assert found["answered"] > 0
    assert found["requests"] == sum(found[kind] for kind in ("answered", "empty", "cancelled"))
    assert 0 < found["first_ms"]["p50"] <= found["whole_ms"]["p99"]
    assert 0 < found["fairness"]["jain_of_answered_shares"] <= 1
    assert plot.read_text().startswith("<svg")


def test_requests_that_were_lost_or_answered_twice_are_counted() -> None:
    lost, refused = Request(0.0), Request(0.0, replies=1, error="-32603: no")
    twice = Request(0.0, 0.1, 0.2, replies=2, has_text=True)
    found = load_report.report([[lost, refused, twice]], Counter())
    assert (found["unanswered"], found["errors"], found["answered"], found["answered_twice"]) == (1, 1, 1, 1)
    assert found["error_messages"] == {"-32603: no": 1}


def test_what_was_recorded_is_the_typing_of_whole_lines() -> None:
    """Each recording ends in code of the same project that the rest of the file is from."""
    for recording in recordings():
        text = recording["text"]
        for pause_ms, offset, removed, new in recording["edits"]:
            assert pause_ms > 0
            text = text[:offset] + new + text[offset + removed :]
        assert text.count("\n") > recording["text"].count("\n") + 3, recording["path"]
        compile(text, recording["path"], "exec")


def test_the_same_source_and_seed_give_the_same_keystrokes(tmp_path: Path) -> None:
    source = ROOT / "inference" / "engine" / "search" / "pruning.py"
    for name in ("a", "b"):
        load_record.main([str(source), "--out", str(tmp_path / name), "--seed", "3"])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

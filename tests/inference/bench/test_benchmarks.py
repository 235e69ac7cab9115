"""The benchmarks of speed and next edits, each run once on something small; each has a row in the README, and help."""

import argparse
import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from inference.bench import latency
from inference.bench.__main__ import main
from lsp_server.commands.inference_process import BENCHMARKS
from tests.e2e.listening import Listening
from tests.full_shape import made_up
from tests.inference.bench.conftest import Measured
from tests.workers import PATIENCE_S

DATA = Path(__file__).parents[2] / "data"
SCENARIOS = DATA / "edit_models"
RENAME = Path(__file__).parent / "fixtures" / "rename.txtar"


@pytest.mark.parametrize("count", ["0", "-5", "many", "1e3"])
def test_a_count_that_makes_no_sense_is_refused(count: str) -> None:
    command = [sys.executable, "-m", "lsp_server.cli", "bench", "next-edit", f"--limit={count}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "not a number" in done.stderr


def test_a_case_that_needs_edits_and_a_quiet_one_are_played(measured: Measured) -> None:
    """With the syntax alone."""
    found = measured("next-edit", "--limit", 1)
    assert (found["cases"], found["quiet_cases"]) == (1, 1)
    assert found["needed_places"] >= 1
    assert 0 <= found["precision"] <= 1
    assert found["false_offers"] in (0, 1)


@pytest.mark.parametrize(("model", "quiet"), [("zeta-2", 1.0), ("zeta", 0.5), ("sweep-next-edit-1.5B", 1.0)])
def test_recorded_rewrites_are_offered_where_wanted(model: str, quiet: float, measured: Measured) -> None:
    found = measured("scenarios", SCENARIOS, "--recorded", SCENARIOS / "recorded.jsonl", "--edit-model", model)
    assert (found["edits"], found["silent"], found["quiet"], found["shown"]) == (3, 4, quiet, 1.0)
    assert found["delta_chrf"] > 0.9


def test_what_is_offered_and_why_nothing_is_can_be_seen(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With a fill model that is as small as the test."""
    (tmp_path / RENAME.name).write_text(RENAME.read_text("utf-8") + "-- expected --\nor this\n", "utf-8")
    (tmp_path / "word.txtar").write_text("language: python\nfile: a.py\nrow: 1\ncol: 3\n-- buffer.txt --\nabcdef\n")
    assert main(["scenarios", str(tmp_path), "--model", str(DATA / "fim"), "--verbose"]) == 0
    output, shown = capfd.readouterr()
    found = json.loads(output.splitlines()[-1])
    assert (found["edits"], found["silent"], found["quiet"]) == (1, 1, 1.0)
    assert (found["delta_chrf"], found["score"]) == (1.0, 1.0), "what the rules solve is worth one"
    assert "offer: line 5, 'area' becomes 'area_of_box'" in shown
    assert "no offer: the cursor is in the middle of a word" in shown


WORDS = ("passes", DATA / "tuning.jsonl.gz", "--model", DATA / "fim")


def test_reading_writing_and_passes_are_measured(measured: Measured) -> None:
    found = measured(*WORDS, "--limit", 2)
    assert found["lines"] == 2
    assert all(found["ours"][key] > 0 for key in ("cold_s", "new_line_s", "next_key_s", "rested_s", "output_tokens_s"))
    assert set(found["pass_ms_by_rows"]) == {"1", "2", "4", "8", "16", "64", "256"}


async def test_a_running_server_is_measured_likewise(runtime_folder: Path, measured: Measured) -> None:
    endpoint = await Listening.start(runtime_folder, "--http", "0", "--model", str(DATA / "fim"), "--device", "cpu")
    try:
        found = await asyncio.to_thread(measured, *WORDS, "--limit", 1, "--url", endpoint.url)
    finally:
        await endpoint.stop()
    [server] = found["peers"]
    assert server["url"] == endpoint.url
    assert all(server[key] > 0 for key in ("cold_s", "next_key_s", "new_line_ratio", "cold_ratio"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("scenarios", DATA / "masked"), "has no scenarios"),
        (("passes", DATA / "tuning.jsonl.gz", "--model", DATA / "masked"), "does not fill the middle"),
        (("latency", "--random", "26b", "--device", "cpu"), "CUDA"),
        (("infilling", "--data", DATA / "held_out.jsonl.gz", "--limit", 1, "--half", "report"), "report"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    words: tuple[object, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*map(str, words)]) == 2
    assert said in capsys.readouterr().err


def test_a_peer_that_does_not_start_leaves_no_other_running(tmp_path: Path) -> None:
    peer = tmp_path / "peer"
    peer.write_text("#!/bin/sh\nexec sleep 600\n")
    peer.chmod(0o700)
    before = psutil.Process().children()
    assert main([*map(str, WORDS), "--peer", str(peer), "--peer", str(tmp_path / "missing")]) == 2
    assert psutil.Process().children() == before


def test_it_measures_every_section(monkeypatch: pytest.MonkeyPatch) -> None:
    small = made_up.SMALL | {"num_hidden_layers": 6, "num_experts": 8, "top_k_experts": 2}
    monkeypatch.setitem(latency.RANDOM_SHAPES, "small", latency.RELEASED_TEXT_CONFIG | small)
    parser = argparse.ArgumentParser()
    latency.add_arguments(parser)
    result = json.loads(json.dumps(latency.measure(parser.parse_args(["--random", "small"]), (64, 256))))
    line = result["against_generate"]
    assert line["same_canvas_cold_times_faster"] == pytest.approx(line["generate_ms"] / line["same_canvas_cold_ms"])
    assert [row["prefix_tokens"] for row in result["prefixes"]] == [64, 256]
    floor = result["floor"]
    assert floor["times_floor"] == pytest.approx(floor["ms_per_step"] / floor["floor_ms"])
    assert floor["times_floor"] > 1, "no step is faster than the reading of its weights"


@pytest.mark.parametrize("more", [[], ["--gguf", "Q4_0"]])
def test_a_worker_fills_in_four_bits(more: list[str]) -> None:
    command = [sys.executable, "-m", "tests.full_shape.dry_run", "--layers", "2", "--small", *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["dtype"] == "4bit"
    assert result["peak_bytes"] >= result["load_peak_bytes"] > 0


README = (Path(__file__).parents[3] / "inference" / "bench" / "README.md").read_text("utf-8")
_FLAG = re.compile(r"^  (--[a-z][a-z\d-]+)(?: \S+)*(?:  +|\n +)\w", re.MULTILINE)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_each_benchmark_has_its_row_and_its_flags_their_help(
    benchmark: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"| `infill-ls bench {benchmark}` |" in README
    with pytest.raises(SystemExit):
        main([benchmark, "--help"])
    usage, _, explained = capsys.readouterr().out.partition("\n\n")
    flags = set(re.findall(r"--[a-z][a-z\d-]+", usage))
    assert flags and set(_FLAG.findall(explained)) == flags

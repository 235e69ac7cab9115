"""The released shape on a small one: the latency benchmark, and the dry run, where the real worker fills in 4 bits."""

import argparse
import json
import subprocess
import sys

import pytest

from inference.bench import latency
from inference.bench.__main__ import main
from tests.workers import PATIENCE_S

SMALL = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "global_head_dim": 32,
    "num_global_key_value_heads": 1,
    "num_experts": 8,
    "top_k_experts": 2,
    "moe_intermediate_size": 32,
}
"""The released layer pattern, small enough for any machine."""


def test_it_measures_every_section(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(latency.RANDOM_SHAPES, "small", latency.RELEASED_TEXT_CONFIG | SMALL)
    parser = argparse.ArgumentParser()
    latency.add_arguments(parser)
    result = json.loads(json.dumps(latency.measure(parser.parse_args(["--random", "small"]), (64, 256))))
    line = result["against_generate"]
    assert line["same_canvas_cold_times_faster"] == pytest.approx(line["generate_ms"] / line["same_canvas_cold_ms"])
    assert [row["prefix_tokens"] for row in result["prefixes"]] == [64, 256]
    floor = result["floor"]
    assert floor["times_floor"] == pytest.approx(floor["ms_per_step"] / floor["floor_ms"])
    assert floor["times_floor"] > 1, "no step is faster than the reading of its weights"


def test_the_released_shape_needs_a_gpu_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["latency", "--random", "26b", "--device", "cpu"]) == 2
    assert "CUDA" in capsys.readouterr().err


def test_a_worker_fills_in_four_bits() -> None:
    command = [sys.executable, "-m", "tests.full_shape.dry_run", "--layers", "2", "--small"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["dtype"] == "4bit"
    assert result["peak_bytes"] >= result["load_peak_bytes"] > 0

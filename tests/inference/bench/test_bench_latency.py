"""The latency benchmark runs on any machine and prints one JSON object last."""

import json

import pytest

from inference.bench import latency


def test_it_measures_every_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert latency.main(["--random", "small", "--json"], (64, 256)) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    line = result["against_generate"]
    assert line["same_canvas_cold_times_faster"] == round_like(line["generate_ms"] / line["same_canvas_cold_ms"])
    assert [row["prefix_tokens"] for row in result["prefixes"]] == [64, 256]
    floor = result["floor"]
    assert floor["times_floor"] == round_like(floor["ms_per_step"] / floor["floor_ms"])
    assert floor["times_floor"] > 1, "no step is faster than the reading of its weights"


def round_like(value: float) -> object:
    """Ratios are rounded after they are taken, so they agree to three digits with those of rounded figures."""
    return pytest.approx(value, rel=5e-3)


def test_the_released_shape_needs_a_gpu_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert latency.main(["--random", "26b", "--device", "cpu"]) == 2
    assert "CUDA" in capsys.readouterr().err

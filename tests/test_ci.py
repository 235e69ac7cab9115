"""What `.ci/run` takes for a failure, with targets that do nothing but end in each way."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[1] / ".ci" / "run"
_MAKEFILE = """\
test check test-real test-bench test-ci test-mlx test-served:
\t@echo ok
test-editors:
\t@{recipe}
"""
_CUT_OFF = "trap 'echo \"{summary}\"; exit 2' INT; echo 'a.py::test_a PASSED'; while :; do sleep 0.1; done"
PASSING = _CUT_OFF.format(summary="==== 1 passed in 5.10s ====")
CASES = {
    "passes": ("echo '==== 1 passed in 0.10s ===='", 0, "passed: make test-editors"),
    "fails": (
        "echo 'FAILED a.py::test_a - assert 1 == 2'; echo '==== 1 failed in 0.10s ===='; exit 1",
        1,
        "FAILED: make test-editors",
    ),
    "its set-up fails": ("exit 7", 1, "FAILED: make test-editors"),
    "is cut off": (PASSING, 0, "CUT OFF for want of time, nothing failed before: make test-editors"),
    "fails, then is cut off": (
        _CUT_OFF.format(summary="==== 1 failed, 3 passed in 5.10s ===="),
        1,
        "FAILED or never got to its tests, then CUT OFF",
    ),
    "an error, then cut off": (
        _CUT_OFF.format(summary="==== 3 passed, 1 error in 65.10s (0:01:05) ===="),
        1,
        "FAILED or never got to its tests, then CUT OFF",
    ),
    "is cut off in its set-up": ("sleep 600", 1, "FAILED or never got to its tests, then CUT OFF"),
    "crashes when cut off": (_CUT_OFF.format(summary="Segmentation fault"), 1, "FAILED or never got to its tests"),
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, "subprocess.CompletedProcess[str]"]:
    """How the script ended in each case. They run side by side, for each takes as long as its time limit."""
    running = {}
    for case, (recipe, _, _) in CASES.items():
        folder = tmp_path_factory.mktemp("checkout")
        (folder / ".ci").mkdir()
        shutil.copy(RUN, folder / ".ci")
        (folder / "Makefile").write_text(_MAKEFILE.format(recipe=recipe.replace("$", "$$")))
        limits = {"CI_END_BY_S": "15", "CI_START_BY_S": "15"}  # a busy machine starts eight makes slowly
        running[case] = subprocess.Popen(
            [folder / ".ci" / "run"], stdout=subprocess.PIPE, text=True, env={**os.environ, **limits}
        )
    return {
        case: subprocess.CompletedProcess(case, process.wait(), process.stdout.read() if process.stdout else "")
        for case, process in running.items()
    }


@pytest.mark.parametrize("case", CASES)
def test_a_suite_that(case: str, ended: dict[str, "subprocess.CompletedProcess[str]"]) -> None:
    _, status, summary = CASES[case]
    assert ended[case].returncode == status, ended[case].stdout
    assert summary in ended[case].stdout


def test_the_last_lines_name_the_tests_that_failed(ended: dict[str, "subprocess.CompletedProcess[str]"]) -> None:
    last = ended["fails"].stdout.rpartition("FAILED: make test-editors")[2]
    assert "FAILED a.py::test_a - assert 1 == 2" in last


def test_a_suite_that_cannot_start_in_time_is_named(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(RUN, tmp_path / ".ci")
    (tmp_path / "Makefile").write_text(_MAKEFILE.format(recipe="exit 1"))
    environment = {**os.environ, "CI_START_BY_S": "0"}
    done = subprocess.run([tmp_path / ".ci" / "run"], capture_output=True, text=True, check=True, env=environment)
    assert "NOT RUN: make test-editors" in done.stdout

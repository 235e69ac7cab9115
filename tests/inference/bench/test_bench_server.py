"""The server's benchmark types into a real server with an echo worker, and prints one JSON object last."""

import json
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "lsp_server.cli", "bench", "server"]


def test_each_kind_of_keystroke_is_measured() -> None:
    command = [*COMMAND, "--lines", "200", "--keystrokes", "200"]
    result = json.loads(subprocess.check_output(command, text=True).splitlines()[-1])
    assert result["lines"] == pytest.approx(200, abs=10)
    floor = result["sections"].pop("no_op")
    assert set(result["sections"]) == {"remembered", "asked"}
    for section in result["sections"].values():
        assert 0 < section["p50"] <= section["p95"]
        assert section["own_p95"] == pytest.approx(section["p95"] - floor["p95"], abs=0.002)


@pytest.mark.parametrize("wrong", ["0", "-5", "many", "1e3"])
def test_a_count_that_is_not_a_sensible_number_is_refused(wrong: str) -> None:
    done = subprocess.run([*COMMAND, f"--keystrokes={wrong}"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "not a number" in done.stderr

"""The dry run of the released shape, on a small one: the real worker fills in 4 bits."""

import json
import subprocess
import sys

from tests.workers import PATIENCE_S


def test_a_worker_fills_in_four_bits() -> None:
    command = [sys.executable, "-m", "tests.full_shape.dry_run", "--layers", "2", "--small"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["dtype"] == "4bit"
    assert result["peak_bytes"] >= result["load_peak_bytes"] > 0

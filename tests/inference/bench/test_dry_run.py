"""The dry run of the released shape, on a small one: the real worker, in 4 bits, fills a hole and ends on request."""

import json
import subprocess
import sys

from tests.workers import PATIENCE_S


def test_four_bit_fill_obeys_deadline_and_cancel() -> None:
    command = [sys.executable, "-m", "tests.full_shape.dry_run", "--layers", "2", "--small"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["dtype"] == "4bit"
    assert result["peak_bytes"] >= result["load_peak_bytes"] > 0
    assert result["step_s"] > 0

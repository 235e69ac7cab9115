"""The memory benchmark plays a session for each size of the prefix cache, and prints one JSON object last."""

import json
import subprocess
import sys

from inference.bench.memory import CACHED_PREFIXES

COMMAND = [sys.executable, "-m", "lsp_server.cli", "bench", "memory", "--requests", "48", "--fills", "1"]


def test_a_larger_cache_reuses_no_less() -> None:
    done = subprocess.run(COMMAND, capture_output=True, text=True, check=True)
    *shown, last = done.stdout.splitlines()
    result = json.loads(last)
    assert len(shown) == 1 + len(CACHED_PREFIXES)
    assert result["loaded_bytes"] > 0
    assert result["cache_bytes"] > 0
    rows = result["sizes"]
    assert [row["prefixes"] for row in rows] == list(CACHED_PREFIXES)
    assert rows[0]["reused"] == 0.0
    assert rows[-1]["reused"] < 1.0
    assert rows[0]["reused"] < rows[1]["reused"] <= rows[-1]["reused"]

"""The benchmark of masked-diffusion models measures each way to fill, and prints one JSON object last."""

import json
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "lsp_server.cli", "bench", "masked", "--shape", "small", "--context-tokens", "160"]


@pytest.mark.parametrize("dtype", ["float32", "8bit", "4bit"])
def test_later_fills_reuse_what_the_first_computed(dtype: str) -> None:
    done = subprocess.run([*COMMAND, "--dtype", dtype], capture_output=True, text=True, check=True)
    assert "MatMul8bitLt" not in done.stderr, "a warning at each product"
    *shown, last = done.stdout.splitlines()
    result = json.loads(last)
    assert len(shown) == 1 + len(result["fills"])
    assert result["dtype"] == dtype
    assert [(row["exact"], row["lengths"]) for row in result["fills"]] == [
        (False, "known"),
        (False, "tried"),
        (True, "known"),
        (True, "tried"),
    ]
    assert [row["reused_tokens"] > 40 for row in result["fills"]] == [True, True, False, False]

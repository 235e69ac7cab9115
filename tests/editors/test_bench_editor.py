"""`infill-ls bench editor`: real key presses in a real Neovim, and a clear message without one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.editors.conftest import require
from tests.editors.places import environment, program

BENCH = [sys.executable, "-m", "lsp_server.cli", "bench", "editor", "--editor", "neovim"]


def test_it_says_where_the_time_of_a_key_press_goes(project: Path) -> None:
    require("nvim")
    status, found, errors = bench(project, "--keystrokes", "6", "--nvim", program("nvim") or "nvim")
    assert status == 0, errors
    neovim = found["editors"]["neovim"]
    assert neovim["ratio"] > 0
    for read_ahead in ("on", "off"):
        assert 0 < neovim["read_ahead"][read_ahead]["with_ghost_text"] <= 6
        parts = neovim["read_ahead"][read_ahead]["ms"]
        assert set(parts) == {"total", "editor", "server", "engine", "paint"}
        assert parts["editor"]["p50"] >= 200  # what Neovim waits before it asks
        assert parts["engine"]["p50"] > 0
        assert all(part["p50"] <= parts["total"]["p50"] for part in parts.values())


def test_it_says_why_it_cannot_run(project: Path) -> None:
    status, found, errors = bench(project, "--nvim", str(project / "no-such-nvim"))
    assert status == 1
    assert "no-such-nvim does not run" in errors
    assert "no-such-nvim does not run" in found["editors"]["neovim"]["not_measured"]


def bench(home: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    kept = {name: value for name, value in environment(home).items() if name != "INFILL_LS_RUNTIME_DIR"}
    kept |= {"OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE")}
    done = subprocess.run([*BENCH, *arguments], env=kept, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1]), done.stderr

"""`python -m tests.editors.bench`: real key presses in a real Neovim."""

import json
import subprocess
import sys
from pathlib import Path

from tests.editors.conftest import require
from tests.editors.places import environment

BENCH = [sys.executable, "-m", "tests.editors.bench", "--editor", "neovim", "--keystrokes", "6"]


def test_it_says_where_the_time_of_a_key_press_goes(project: Path) -> None:
    require("nvim")
    kept = {name: value for name, value in environment(project).items() if name != "INFILL_LS_RUNTIME_DIR"}
    kept["INFILL_LS_DEADLINE_MS_AUTOMATIC"] = "60000"  # for a busy machine
    done = subprocess.run(BENCH, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    neovim = json.loads(done.stdout.splitlines()[-1])["editors"]["neovim"]
    assert neovim["ratio"] > 0
    for read_ahead in ("on", "off"):
        assert 0 < neovim["read_ahead"][read_ahead]["with_ghost_text"] <= 6
        parts = neovim["read_ahead"][read_ahead]["ms"]
        assert set(parts) == {"total", "editor", "server", "engine", "paint"}
        assert parts["editor"]["p50"] >= 200  # what Neovim waits before it asks
        assert parts["engine"]["p50"] > 0
        assert all(part["p50"] <= parts["total"]["p50"] for part in parts.values())

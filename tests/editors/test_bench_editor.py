"""`infill-ls bench editor`: real key presses in a real Neovim, and a clear message without one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Error as PlaywrightError

from tests.editors.conftest import require
from tests.editors.places import environment, program
from tests.editors.vscode.bench import why

BENCH = [sys.executable, "-m", "lsp_server.cli", "bench", "editor", "--editor", "neovim"]


def test_it_says_where_the_time_of_a_key_press_goes(project: Path) -> None:
    require("nvim")
    status, found, errors = bench(project, "--keystrokes", "6", "--nvim", program("nvim") or "nvim")
    assert status == 0, errors
    neovim = found["editors"]["neovim"]
    assert 0 < neovim["with_ghost_text"] <= 6
    parts = neovim["ms"]
    assert set(parts) == {"total", "editor", "server", "engine", "paint"}
    assert parts["editor"]["p50"] >= 200  # what Neovim waits before it asks
    assert parts["engine"]["p50"] > 0
    assert all(part["p50"] <= parts["total"]["p50"] for part in parts.values())


def test_it_says_why_it_cannot_run(project: Path) -> None:
    status, found, errors = bench(project, "--nvim", str(project / "no-such-nvim"))
    assert status == 1
    assert "no-such-nvim does not run" in errors
    assert "no-such-nvim does not run" in found["editors"]["neovim"]["not_measured"]


def test_a_vs_code_that_is_too_slow_is_reported_in_one_line() -> None:
    said = "Page.click: Timeout 60000ms exceeded.\nCall log:\n  - waiting for locator('.tab')\n    - waiting 500ms\n"
    reason = why(PlaywrightError(said))
    assert "\n" not in reason
    assert "Timeout 60000ms exceeded" in reason
    assert "waiting for locator('.tab')" in reason
    assert "try again on a less busy machine" in reason


def bench(home: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    kept = {name: value for name, value in environment(home).items() if name != "INFILL_LS_RUNTIME_DIR"}
    kept |= {"OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE")}
    done = subprocess.run([*BENCH, *arguments], env=kept, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1]), done.stderr

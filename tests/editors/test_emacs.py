"""Emacs with the file of this repository: completion and code actions by eglot, ghost text by lsp-mode."""

import json
import subprocess
from pathlib import Path
from typing import Any

from lsp_server.syntax.languages import TABLES
from tests.editors.conftest import assert_only_holes_changed, require
from tests.editors.places import EDITORS, PATIENCE_S, environment, program
from tests.editors.vscode.private_network import PrivateNetwork

CONFIGURATION = EDITORS / "emacs" / "infill.el"
DRIVER = Path(__file__).with_name("drive.el")
HOLES = "def area(w, h):\n    return ???\n\n\ndef half(number):\n    result = ???\n    return result\n"
LINES = "\n\n\n".join(f"def add{number}(a, b):\n    return " for number in range(6)) + "\n"


def test_a_completion_is_accepted(project: Path, network: PrivateNetwork | None) -> None:
    found = emacs("infill-test-complete", LINES, project, network)
    assert found["candidate"], "nothing was offered anywhere"
    before, after, at = LINES.splitlines(), found["text"].splitlines(), found["line"] - 1
    assert after[at].startswith(before[at] + found["candidate"].rstrip("…"))
    assert [*after[:at], *after[at + 1 :]] == [*before[:at], *before[at + 1 :]]


def test_filling_all_holes_changes_the_holes_and_nothing_else(project: Path, network: PrivateNetwork | None) -> None:
    found = emacs("infill-test-fill-file", HOLES, project, network)
    assert "2 holes" in found["title"]
    assert_only_holes_changed(HOLES, found["text"])


def test_it_compiles_without_a_warning(project: Path) -> None:
    copy = project / "infill.el"
    copy.write_text(CONFIGURATION.read_text())
    done = batch(project, "--eval", "(setq byte-compile-error-on-warn t)", "-f", "batch-byte-compile", str(copy))
    assert done.returncode == 0, done.stderr


def test_eglot_and_lsp_mode_know_every_language(project: Path) -> None:
    done = batch(project, "-l", str(CONFIGURATION), "--eval", '(princ (mapconcat #\'cdr infill-languages " "))')
    offered = set(done.stdout.split())
    assert [table.ids for table in TABLES if not offered & set(table.ids)] == []


def batch(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    require("emacs")
    command = [program("emacs") or "emacs", "--batch", "-Q", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment(folder), cwd=folder)


def emacs(function: str, text: str, folder: Path, network: PrivateNetwork | None) -> dict[str, Any]:
    require("emacs")
    file = folder / "main.py"
    file.write_text(text)
    words = [program("emacs") or "emacs", "--batch", "-Q", "-l", str(CONFIGURATION), "-l", str(DRIVER)]
    words += ["--eval", f"({function} {json.dumps(str(file))})"]
    words += ["--eval", "(when (eglot-current-server) (eglot-shutdown (eglot-current-server)))"]
    command = network.command(*words) if network else words
    place = {"env": environment(folder), "cwd": folder, "timeout": 2 * PATIENCE_S}
    done = subprocess.run(command, capture_output=True, text=True, check=False, **place)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, done.stderr
    assert lines, done.stderr
    return json.loads(lines[-1])

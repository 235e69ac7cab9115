"""Emacs with the file of this repository: completion and code actions by eglot, ghost text by lsp-mode."""

import json
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lsp_server.syntax.languages import TABLES
from tests.editors.conftest import assert_only_holes_changed, require
from tests.editors.places import EDITORS, PATIENCE_S, environment, program, until
from tests.editors.terminal import Terminal
from tests.editors.vscode.private_network import PrivateNetwork
from tests.not_tested import not_tested

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


@pytest.mark.parametrize(
    ("name", "language_id", "text"),
    [
        ("main.js", "js", "let area = ???;\nlet half = ???;\n"),
        ("main.json", "js-json", '{"area": ???, "half": ???}\n'),
        ("main.toml", "conf-toml", "area = ???\nhalf = ???\n"),
    ],
)
def test_the_language_id_that_eglot_makes_of_a_mode_is_known(
    project: Path, network: PrivateNetwork | None, name: str, language_id: str, text: str
) -> None:
    found = emacs("infill-test-fill-file-by-mode", text, project, network, name)
    assert found["id"] == language_id
    assert found["grammar"] is True
    assert "2 holes" in found["title"]


def test_it_compiles_without_a_warning(project: Path) -> None:
    copy = project / "infill.el"
    copy.write_text(CONFIGURATION.read_text())
    done = batch(project, "--eval", "(setq byte-compile-error-on-warn t)", "-f", "batch-byte-compile", str(copy))
    assert done.returncode == 0, done.stderr


def test_eglot_and_lsp_mode_know_every_language(project: Path) -> None:
    done = batch(project, "-l", str(CONFIGURATION), "--eval", '(princ (mapconcat #\'cdr infill-languages " "))')
    offered = set(done.stdout.split())
    assert [table.ids for table in TABLES if not offered & set(table.ids)] == []


def test_lsp_mode_shows_ghost_text_that_tab_takes(
    project: Path, network: PrivateNetwork | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_lsp_mode(project)
    require("tmux")
    monkeypatch.setenv("INFILL_LS_DEADLINE_MS_AUTOMATIC", "60000")
    file = project / "main.py"
    file.write_text(LINES)
    words = ["-nw", "-Q", "-l", str(CONFIGURATION), "-l", str(DRIVER), "--eval", f'(infill-test-lsp "{file}")']
    terminal = Terminal(project, program("emacs") or "emacs", *words, network=network)
    try:
        terminal.shows("LSP")
        line = next(line for line in range(2, 23, 4) if shows_ghost_text(terminal, line))
        terminal.press("Tab", "C-x", "C-s")
        text: str = until(lambda: (found := file.read_text()) != LINES and found, "the text is saved")
        assert not terminal.is_on_screen("*Warnings*")
    finally:
        terminal.close()
    before, after = LINES.splitlines(), text.splitlines()
    assert after[line - 1].startswith(before[line - 1]) and len(after[line - 1]) > len(before[line - 1])


def shows_ghost_text(terminal: Terminal, line: int) -> bool:
    """Whether there is some at the end of a line (from 1), after a key that changes nothing."""
    terminal.press("M-g", "g")
    terminal.type(str(line))
    terminal.press("Enter", "C-e", "BSpace", "Space")
    with suppress(AssertionError):
        return bool(until(lambda: terminal.is_on_screen("Accept"), "ghost text", 30.0))
    return False


def test_snoozed_or_dismissed_ghost_text_does_not_come_by_itself(
    project: Path, network: PrivateNetwork | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_lsp_mode(project)
    monkeypatch.setenv("INFILL_LS_DEADLINE_MS_AUTOMATIC", "60000")
    found = emacs("infill-test-snooze", LINES, project, network)
    assert found["before"] and found["invoked"] and found["after"], found
    assert found["snoozed"] is None
    assert not {*found["after"]} & {*(found["dismissed"] or [])}
    assert found["minutes"] == 5


def require_lsp_mode(folder: Path) -> None:
    require("emacs")
    if batch(folder, "-l", str(DRIVER), "-l", "lsp-inline-completion").returncode != 0:
        not_tested("ghost text in Emacs: lsp-mode 10 or newer is not installed (tests/editors/install.sh says why)")


def batch(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    require("emacs")
    command = [program("emacs") or "emacs", "--batch", "-Q", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment(folder), cwd=folder)


def emacs(
    function: str, text: str, folder: Path, network: PrivateNetwork | None, name: str = "main.py"
) -> dict[str, Any]:
    require("emacs")
    file = folder / name
    file.write_text(text)
    words = [program("emacs") or "emacs", "--batch", "-Q", "-l", str(CONFIGURATION), "-l", str(DRIVER)]
    words += ["--eval", f"({function} {json.dumps(str(file))})"]
    words += ["--eval", "(when (eglot-current-server) (eglot-shutdown (eglot-current-server)))"]
    command = network.command(*words) if network else words
    place = {"env": environment(folder), "cwd": folder, "timeout": 2 * PATIENCE_S}
    done = subprocess.run(command, capture_output=True, text=True, check=False, **place)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, done.stderr
    assert "unknown notification" not in done.stderr.lower()
    assert lines, done.stderr
    return json.loads(lines[-1])

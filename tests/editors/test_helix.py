"""Helix with the configuration file of this repository: completion."""

import re
import shutil
import time
from pathlib import Path

from tests.editors.conftest import require
from tests.editors.places import EDITORS, ROOT
from tests.editors.terminal import Terminal
from tests.editors.vscode.private_network import PrivateNetwork

CONFIGURATION = EDITORS / "helix" / "languages.toml"
LINES = "\n\n\n\n\n".join(f"def add{number}(a, b):\n    return " for number in range(6)) + "\n"
OFFERED = re.compile(r"^\s*(?:\d+|~)\s+(\S.*?)\s+text\s*$")
"""A row of the menu of completions, over rows with nothing but a number: the label, and of what kind it is."""
TRY_S = 8.0


def offered(terminal: Terminal, line: int) -> str:
    """What is offered at the end of a line (from 1) in a menu that stays open; empty when nothing is."""
    terminal.press("Escape")
    terminal.type(f"{line}ggA")
    terminal.shows("INS")
    terminal.press("C-x")
    give_up = time.monotonic() + TRY_S
    while time.monotonic() < give_up:
        time.sleep(0.2)
        if found := [match[1] for row in terminal.screen if (match := OFFERED.match(row))]:
            return found[0]
    return ""


def test_the_readme_shows_the_configuration_that_is_tested_here() -> None:
    assert f"```toml\n{CONFIGURATION.read_text()}```" in (ROOT / "README.md").read_text()


def test_a_completion_appears_and_is_accepted(project: Path, network: PrivateNetwork | None) -> None:
    require("hx", "tmux")
    (project / "config" / "helix").mkdir(parents=True)
    shutil.copy(CONFIGURATION, project / "config" / "helix")
    file, before = project / "main.py", LINES.splitlines()
    file.write_text(LINES)
    terminal = Terminal(project, "hx", str(file), size=(110, 40), network=network)
    try:
        terminal.shows("NOR")
        for number in range(1, len(before), 6):  # the small model has not something for each of them
            if label := offered(terminal, number + 1):
                break
        else:
            raise AssertionError("nothing was offered anywhere")
        terminal.press("Tab", "Enter", "Escape")
        terminal.shows("NOR")
        terminal.type(":write")
        terminal.press("Enter")
        terminal.shows("written")
    finally:
        terminal.close()
    after = file.read_text().splitlines()
    assert after[number].startswith(before[number] + label.rstrip("…"))
    assert [*after[:number], *after[number + 1 :]] == [*before[:number], *before[number + 1 :]]

"""Helix with the configuration file of this repository: completion, and the next edit as a code action."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.editors.conftest import require
from tests.editors.pictures import Picture
from tests.editors.places import EDITORS, PATIENCE_S, ROOT, until
from tests.editors.terminal import Terminal
from tests.editors.vscode.private_network import PrivateNetwork

CONFIGURATION = EDITORS / "helix" / "languages.toml"
LINES = "\n\n\n\n\n".join(f"def add{number}(a, b):\n    return " for number in range(6)) + "\n"
OFFERED = re.compile(r"^\s*(?:\d+|~)\s+(\S.*?)\s+text\s*$")
"""A row of the menu of completions, over rows with nothing but a number: the label, and of what kind it is."""
TRY_S = 8.0


@contextmanager
def helix(file: Path, text: str, network: PrivateNetwork | None, look: str = "") -> Iterator[Terminal]:
    require("hx", "tmux")
    configuration = file.parent / "config" / "helix"
    configuration.mkdir(parents=True)
    shutil.copy(CONFIGURATION, configuration)
    (configuration / "config.toml").write_text(look)
    file.write_text(text)
    size = (72, len(text.splitlines()) + 7) if look else (110, 40)
    terminal = Terminal(file.parent, "hx", str(file), size=size, network=network)
    try:
        terminal.shows("NOR")
        yield terminal
    finally:
        terminal.close()


def write(terminal: Terminal) -> None:
    terminal.shows("NOR")
    terminal.type(":write")
    terminal.press("Enter")
    terminal.shows("written")


def menu(terminal: Terminal, entry: str) -> None:
    """Opens the menu of code actions until it has such an entry."""
    wait_s = 0.5
    while not terminal.is_on_screen(entry):
        assert wait_s < PATIENCE_S, "\n".join(terminal.screen)
        terminal.press("Escape")
        terminal.type(" a")
        with suppress(AssertionError):
            until(lambda: terminal.is_on_screen(entry), f"{entry} is in the menu", wait_s)
        wait_s *= 1.5  # a menu takes a while on a busy machine


def offered(terminal: Terminal, line: int) -> str:
    """What is offered at the end of a line (from 1) in a menu that stays open; empty when nothing is."""
    terminal.press("Escape")
    terminal.type(f"{line}ggA")
    terminal.shows("INS")
    terminal.press("C-x")
    with suppress(AssertionError):
        return until(lambda: [match[1] for row in terminal.screen if (match := OFFERED.match(row))], "a menu", TRY_S)[0]
    return ""


def test_the_readme_shows_the_configuration_that_is_tested_here() -> None:
    assert f"```toml\n{CONFIGURATION.read_text()}```" in (ROOT / "README.md").read_text()


def test_a_completion_appears_and_is_accepted(project: Path, network: PrivateNetwork | None) -> None:
    file, before = project / "main.py", LINES.splitlines()
    with helix(file, LINES, network) as terminal:
        for number in [*range(1, len(before), 6)] * 3:  # the small model has not something for each of them
            if label := offered(terminal, number + 1):
                break
        assert label, "nothing was offered anywhere"
        terminal.press("Tab", "Enter", "Escape")
        write(terminal)
    after = file.read_text().splitlines()
    assert after[number].startswith(before[number] + label.rstrip("…"))
    assert [*after[:number], *after[number + 1 :]] == [*before[:number], *before[number + 1 :]]


RENAME = """\
def total(price, amount):
    tax = price * 0.2
    return (price + tax) * amount


print(total(9, 2))
"""


def test_next_edits_are_code_actions(project: Path, network: PrivateNetwork | None, picture: Picture) -> None:
    """The menu has them first, so that Space, a and Enter take one; and one key takes it back."""
    file = project / "main.py"
    with helix(file, RENAME, network, 'theme = "dark_plus"\n[editor]\ntrue-color = true\n') as terminal:
        menu(terminal, "Rewrite this body")  # the server knows the file
        terminal.press("Escape")
        terminal.type("wwc")
        terminal.shows("INS")
        terminal.type("sum_of")
        terminal.press("Escape")
        terminal.shows("NOR")
        menu(terminal, "Next edit")
        assert "Next edit: rename total to sum_of (line 6)" in picture("next-edit", "Helix", [("", terminal.colours)])
        terminal.press("Enter")
        terminal.shows("print(sum_of(9, 2))")
        write(terminal)
    assert file.read_text() == RENAME.replace("total", "sum_of")

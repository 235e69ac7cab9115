"""Helix with the configuration file of this repository, beside another server (ruff): completion and code actions."""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.editors.conftest import assert_only_holes_changed, require
from tests.editors.partner import partner_of_environment
from tests.editors.places import EDITORS, ROOT, until
from tests.editors.terminal import Terminal
from tests.editors.vscode.private_network import PrivateNetwork

CONFIGURATION = EDITORS / "helix" / "languages.toml"
HOLES = "import os\n\n\ndef area(w, h):\n    return ???\n\n\ndef half(number):\n    result = ???\n    return result\n"
LINES = "\n\n\n\n\n".join(f"def add{number}(a, b):\n    return " for number in range(6)) + "\n"
HALF = "def half(number):\n    return number + 1\n"
BETTER = "number / 2"
NAMED = "def f():\n    return 1\n\n\ncount = f()\nprint(count)\nprint(-count)\n"
OFFERED = re.compile(r"^\s*(?:\d+|~)\s+(\S.*?)\s+text\s*$")
"""A row of the menu of completions, over rows with nothing but a number: the label, and of what kind it is."""
ENTRY = re.compile(r"\s((?:Download|Fill|Next edit:|Refine|Rework|Rewrite|Write|Ruff:) .*\S)")
"""A row of the menu of code actions, which may stand beside code."""


TRY_S = 8.0


class Helix:
    """One Helix on one file."""

    def __init__(self, home: Path, text: str, network: PrivateNetwork | None) -> None:
        (home / "config" / "helix").mkdir(parents=True)
        shutil.copy(CONFIGURATION, home / "config" / "helix")
        self.file = home / "main.py"
        self.file.write_text(text)
        self.terminal = Terminal(home, "hx", str(self.file), size=(110, 40), network=network)
        self.terminal.shows("NOR")

    def saved(self) -> str:
        """The text, once Helix has written it to its file."""
        self.terminal.press("Escape")
        self.terminal.shows("NOR")
        self.terminal.type(":write")
        self.terminal.press("Enter")
        self.terminal.shows("written")
        return self.file.read_text()

    def actions(self, *wanted: str) -> list[str]:
        """The code actions of both servers, for the place the cursor is at, in a menu that stays open.

        There is one that begins with each of `wanted`.

        Helix asks each server once, so that one which is not yet there is left out; then it is asked again.
        """

        def look() -> list[str]:
            entries = self._menu()
            return entries if {entry.split()[0] for entry in entries} >= set(wanted) else []

        return until(look, "both servers offer code actions")

    def opens_menu_with(self, entry: str) -> None:
        """Open the menu of code actions until it has this entry, which may stand beside a diagnostic."""
        until(lambda: any(row.startswith(entry) for row in self._menu()), f"the menu has: {entry}")

    def _menu(self) -> list[str]:
        """What a newly opened menu of code actions offers; empty where none has opened in `TRY_S`.

        An answer that came after the next try would open its menu over the one in which an entry is being chosen.
        """
        self.terminal.press("Escape")
        until(lambda: not self._entries(), "the menu has closed")
        self.terminal.press("Space", "a")
        give_up = time.monotonic() + TRY_S
        while not (entries := self._entries()) and time.monotonic() < give_up:
            time.sleep(0.2)
        return entries

    def _entries(self) -> list[str]:
        return [match[1] for row in self.terminal.screen if (match := ENTRY.search(row))]

    def completion(self, line: int) -> str:
        """What is offered at the end of a line (from 1) in a menu that stays open; empty when nothing is."""
        self.terminal.press("Escape")
        self.terminal.type(f"{line}ggA")
        self.terminal.shows("INS")
        self.terminal.press("C-x")
        give_up = time.monotonic() + TRY_S
        while time.monotonic() < give_up:
            time.sleep(0.2)
            if found := [match[1] for row in self.terminal.screen if (match := OFFERED.match(row))]:
                return found[0]
        return ""


@pytest.fixture
def start_helix(project: Path, network: PrivateNetwork | None) -> Iterator[Callable[[str], Helix]]:
    """Starts a Helix on a text; it is ended after the test."""
    require("hx", "tmux")
    started: list[Helix] = []

    def start(text: str) -> Helix:
        started.append(Helix(project, text, network))
        return started[-1]

    yield start
    for helix in started:
        helix.terminal.close()


def test_the_readme_shows_the_configuration_that_is_tested_here() -> None:
    assert f"```toml\n{CONFIGURATION.read_text()}```" in (ROOT / "README.md").read_text()


def test_beside_ruff_only_the_holes_change(start_helix: Callable[[str], Helix]) -> None:
    helix = start_helix(HOLES)
    entries = helix.actions("Fill", "Ruff:")
    wanted = next(number for number, entry in enumerate(entries) if entry.startswith("Fill the 2 holes"))
    helix.terminal.press(*["Down"] * wanted, "Enter")
    until(lambda: "???" not in "".join(helix.terminal.screen), "the holes are filled")
    assert_only_holes_changed(HOLES, helix.saved())


def test_a_selection_is_refined_by_the_partner(
    start_helix: Callable[[str], Helix], project: Path, network: PrivateNetwork | None
) -> None:
    with partner_of_environment(project / "partner", network) as partner:
        partner.answers(BETTER)
        helix = start_helix(HALF)
        helix.terminal.type(r"/number \+ 1")
        helix.terminal.press("Enter")
        entries = helix.actions("Refine")
        wanted = next(number for number, entry in enumerate(entries) if entry.startswith("Refine"))
        helix.terminal.press(*["Down"] * wanted, "Enter")
        helix.terminal.shows(BETTER)
        assert partner.asked[-1]["draft"] == "number + 1"
        assert helix.saved() == HALF.replace("number + 1", BETTER)


def test_the_next_edit_is_a_code_action(start_helix: Callable[[str], Helix]) -> None:
    """A rename where the name is defined, then the two other places, the nearest first."""
    helix = start_helix(NAMED)
    helix.actions("Rewrite")  # the server has the file
    helix.terminal.press("Escape")
    helix.terminal.type("/count")
    helix.terminal.press("Enter")
    helix.terminal.type("ctotal")
    for line in (6, 7):  # it is the first entry here
        helix.opens_menu_with(f"Next edit: rename count to total (line {line})")
        helix.terminal.press("Enter")
        helix.terminal.shows(NAMED.replace("count", "total").splitlines()[line - 1])
    assert helix.saved() == NAMED.replace("count", "total")


def test_a_completion_appears_and_is_accepted(start_helix: Callable[[str], Helix]) -> None:
    helix = start_helix(LINES)
    before = LINES.splitlines()
    for number in range(1, len(before), 6):  # the small model has not something for each of them
        if label := helix.completion(number + 1):
            break
    else:
        raise AssertionError("nothing was offered anywhere")
    helix.terminal.press("Tab", "Enter")
    after = helix.saved().splitlines()
    assert after[number].startswith(before[number] + label.rstrip("…"))
    assert [*after[:number], *after[number + 1 :]] == [*before[:number], *before[number + 1 :]]

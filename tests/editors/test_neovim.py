"""Neovim with only the README's lines, and every plugin's obligations in it."""

import os
import signal
from pathlib import Path

from tests.editors.conftest import StartNeovim, assert_only_holes_changed
from tests.editors.neovim import PLUGIN, Neovim
from tests.editors.places import ROOT, until
from tests.workers import kill

LINE = "def add(a, b):\n    return \n"
HOLES = "def area(width, height):\n    return ???\n\n\ndef half(number):\n    result = ???\n    return result\n"
SNIPPET = PLUGIN / "minimal.lua"
REQUEST = "textDocument/inlineCompletion"
FILL_FILE = """
vim.lsp.buf.code_action({
  apply = true,
  filter = function(action) return action.title:find('file') ~= nil and action.kind:find('infill') ~= nil end,
})
"""


def test_the_readme_shows_the_snippet_that_is_tested_here() -> None:
    assert f"```lua\n{SNIPPET.read_text()}```" in (ROOT / "README.md").read_text()


def test_lines_of_the_readme_give_ghost_text(start_neovim: StartNeovim) -> None:
    neovim = start_neovim(LINE, SNIPPET)
    neovim.attached()
    takes_a_suggestion(neovim)
    assert neovim.messages == ""


def test_with_the_plugin_a_suggestion_appears_and_tab_takes_it(start_neovim: StartNeovim, plugin_init: Path) -> None:
    neovim = start_neovim(LINE, plugin_init)
    neovim.attached()
    takes_a_suggestion(neovim)
    assert neovim.said == []
    assert neovim.messages == ""


def test_filling_all_holes_changes_the_holes_and_nothing_else(start_neovim: StartNeovim, plugin_init: Path) -> None:
    neovim = start_neovim(HOLES, plugin_init)
    neovim.attached()
    neovim.lua(FILL_FILE)
    until(lambda: neovim.text != HOLES, "the holes are filled")
    assert_only_holes_changed(HOLES, neovim.text)
    neovim.type("u")
    until(lambda: neovim.text == HOLES, "one undo takes it back")


def test_typing_on_stops_what_is_being_computed(start_neovim: StartNeovim, plugin_init: Path) -> None:
    """The worker stands still meanwhile, so that the answer can only be that of a request that was given up."""
    neovim = start_neovim(LINE, plugin_init)
    neovim.attached()
    worker = neovim.status()["pid"]
    os.kill(worker, signal.SIGSTOP)
    try:
        neovim.type("jA")
        until(lambda: f"pending {REQUEST}" in neovim.recorded("requests"), "a suggestion is asked for")
        assert f"complete {REQUEST}" not in neovim.recorded("requests")
        neovim.type("a")
        until(lambda: f"complete {REQUEST}" in neovim.recorded("requests"), "the first request is given up")
    finally:
        os.kill(worker, signal.SIGCONT)
    neovim.ghost()
    assert neovim.text == "def add(a, b):\n    return a\n"


def test_a_worker_that_is_killed_is_seen_and_replaced(start_neovim: StartNeovim, plugin_init: Path) -> None:
    neovim = start_neovim(LINE, plugin_init)
    neovim.attached()
    assert neovim.lua("return require('infill').status()") == "infill: ready"
    worker = neovim.status()["pid"]
    seen = len(neovim.recorded("states"))
    kill(worker)
    until(lambda: set(neovim.recorded("states")[seen:]) - {"ready", "busy"}, "the status says that it is gone")
    takes_a_suggestion(neovim)
    assert neovim.status()["pid"] not in (None, worker)


def test_two_editors_share_one_worker(start_neovim: StartNeovim, plugin_init: Path) -> None:
    first, second = (start_neovim(LINE, plugin_init) for _ in range(2))
    first.attached()
    second.attached()
    assert first.status()["pid"] == second.status()["pid"]


def takes_a_suggestion(neovim: Neovim) -> None:
    """At the end of the second line of LINE; Tab takes what is shown, and that alone."""
    neovim.type("jA")
    ghost = neovim.ghost()
    neovim.type("<Tab>")
    until(lambda: neovim.text != LINE, "the suggestion is in the buffer")
    assert neovim.text == f"def add(a, b):\n    return {ghost}\n"

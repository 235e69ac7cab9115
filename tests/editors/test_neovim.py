"""Neovim without the plugin, with `minimal.lua` alone, and every plugin's obligations in it."""

from pathlib import Path

from tests.editors.conftest import StartNeovim
from tests.editors.neovim import PLUGIN, Neovim
from tests.editors.places import ROOT, until

LINE = "def add(a, b):\n    return \n"
HOLES = "def area(width, height):\n    return ???\n\n\ndef half(number):\n    result = ???\n    return result\n"
SNIPPET = PLUGIN / "minimal.lua"
REQUEST = "textDocument/inlineCompletion"


def test_the_readme_starts_the_plugin_as_its_own_readme_does() -> None:
    lines = (PLUGIN / "README.md").read_text().split("```lua\n")[1].split("```")[0]
    assert f"```lua\n{lines}```" in (ROOT / "README.md").read_text()


def test_minimal_lines_give_ghost_text_without_the_plugin(start_neovim: StartNeovim) -> None:
    neovim = start_neovim(LINE, SNIPPET).attached()
    takes_a_suggestion(neovim)
    assert neovim.messages == ""


def test_with_the_plugin_a_suggestion_appears_and_tab_takes_it(start_neovim: StartNeovim, plugin_init: Path) -> None:
    neovim = start_neovim(LINE, plugin_init).attached()
    takes_a_suggestion(neovim)
    assert neovim.said == []
    assert neovim.messages == ""


def takes_a_suggestion(neovim: Neovim) -> None:
    neovim.type("jA")
    ghost = neovim.ghost()
    neovim.type("<Tab>")
    until(lambda: neovim.text != LINE, "the suggestion is in the buffer")
    assert neovim.text == f"def add(a, b):\n    return {ghost}\n"

"""Pictures of a real Neovim: a suggestion, drafts that settle, one that is refined, next edits, the menu.

They are drawn into a folder that is thrown away, or into the one that INFILL_TEST_PICTURES names (`make pictures`).
"""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.text import Text

from tests.editors.conftest import StartNeovim, assert_only_holes_changed, require
from tests.editors.neovim import DRAFTS, GHOSTS, Neovim
from tests.editors.partner import Partner
from tests.editors.pictures import NARROW, WIDTH, Picture
from tests.editors.places import until

SUGGEST = '''\
class Shape:
    """Something with a name and a size."""

    def __init__(self, name, size):
        self.name = name
        self.size = \n
    def area(self):
        return self.size * self.size
'''
REFINED = "max(0, size)"
"""What the partner writes behind `self.size =`."""
FILL = """\
def count(words):
    result = ???
    for word in words:
        result[word] = ???
    return sorted(???)
"""
RENAME = """\
def total(price, amount):
    tax = price * 0.2
    return (price + tax) * amount
"""
LOOK = """
vim.o.showcmd = false  -- or 'Press ENTER' follows a message that is not much narrower than the window
vim.o.termguicolors, vim.o.number, vim.o.laststatus, vim.o.ruler, vim.o.showmode = true, true, 0, false, false
vim.o.fillchars, vim.o.shortmess, vim.o.wrap = 'eob: ', vim.o.shortmess .. 'aF', false
"""
SLOWLY = """
local pause = ...
vim.o.winbar = ' '
vim.api.nvim_create_autocmd('User', { pattern = 'InfillDraft', callback = function(args)
  vim.o.winbar = ('step %d of %d'):format(args.data.step, args.data.max_steps)
  vim.cmd.redraw()
  vim.uv.sleep(pause)
end })
vim.api.nvim_create_autocmd('TextChanged', { callback = function() vim.o.winbar = 'filled' end })
"""
"""Says on top which step it is, and gives the tests time to look."""
PAUSE_MS = 400
FRAMES = 4
TRIES = 8


@pytest.fixture
def visible(start_neovim: StartNeovim, plugin_init: Path) -> Callable[..., Neovim]:
    require("tmux")
    one = "settings = { candidates = { invoked = 1 }, "  # the answer is what the drafts were of
    plugin_init.write_text(LOOK + plugin_init.read_text().replace("settings = {", one))

    def start(text: str, width: int = WIDTH) -> Neovim:
        size = (width, len(text.splitlines()) + 6)
        return start_neovim(text, plugin_init, visible=True, size=size).attached()

    return start


def test_picture_of_a_suggestion(visible: Callable[..., Neovim], picture: Picture) -> None:
    neovim = visible(SUGGEST)
    neovim.type("5jA")
    shown = neovim.ghost().splitlines()[0][: NARROW // 2]  # a longer one scrolls the window sideways
    neovim.terminal.shows(shown)
    assert f".size = {shown}" in picture("ghost-text", "Neovim", [("", neovim.terminal.colours)])


def test_picture_of_drafts_that_settle(visible: Callable[..., Neovim], picture: Picture) -> None:
    """Of a fill that can be parsed and took some steps, if there is one among a few: the small model is small."""
    neovim = visible(FILL, NARROW)
    neovim.lua(SLOWLY, PAUSE_MS)
    for left in reversed(range(TRIES)):
        frames = frames_of(neovim, "Infill file")
        if left == 0 or (parses(neovim.text) and len(frames) >= FRAMES):
            break
        neovim.lua("vim.cmd('silent undo')")
    assert len(frames) > 2, "more than one draft, and the answer"
    count = min(FRAMES, len(frames))
    chosen = [frames[index * (len(frames) - 1) // (count - 1)] for index in range(count)]
    drawn = picture("drafts", "Neovim :Infill file", chosen)
    assert neovim.text.splitlines()[1] in drawn
    assert_only_holes_changed(FILL, neovim.text)
    until(lambda: neovim.shown(DRAFTS) == [], "the drafts are gone")
    neovim.type("u")
    until(lambda: neovim.text == FILL, "one undo takes it back")


def test_picture_of_a_suggestion_that_is_refined(
    visible: Callable[..., Neovim], picture: Picture, partner: Partner
) -> None:
    partner.answers(REFINED)
    neovim = visible(SUGGEST, NARROW)
    neovim.type("5jA")
    ghost = neovim.ghost()
    neovim.terminal.shows(ghost.splitlines()[0][: NARROW // 3])
    draft = neovim.terminal.colours
    with partner.held():
        neovim.type("<M-r>")
        assert partner.until_asked()["draft"] == ghost
        assert "".join(neovim.shown(GHOSTS) + neovim.shown(DRAFTS)) == ghost, "until there is a better one"
    neovim.terminal.shows(REFINED)
    neovim.lua("vim.fn.winrestview({ leftcol = 0 })")  # a long draft has scrolled the window sideways
    neovim.terminal.shows(f"self.size = {REFINED}")
    refined = neovim.terminal.colours
    drawn = picture("refine", "Neovim Alt-R", [("at once", draft), ("refined by the partner", refined)])
    assert f"self.size = {REFINED}" in drawn
    assert neovim.text == SUGGEST
    neovim.type("<Tab>")
    until(lambda: neovim.text == SUGGEST.replace("size = \n", f"size = {REFINED}\n"), "it is taken")
    assert neovim.said == []


def test_picture_of_the_next_edit(visible: Callable[..., Neovim], picture: Picture) -> None:
    neovim = visible(RENAME, NARROW)
    neovim.lua("vim.lsp.inline_completion.enable(false, { bufnr = 0 })")
    neovim.type("/price<CR>cwcost<Esc>")
    until(lambda: "cost" in neovim.shown("infill.next_edit"), "the next edit is shown")
    neovim.terminal.shows("pricecost")
    renamed = neovim.terminal.colours
    neovim.type("<Tab><Tab>")
    until(lambda: neovim.text.count("cost") == 2, "the first place is taken")
    until(lambda: "cost" in neovim.shown("infill.next_edit"), "the next edit is shown")
    screens = [("after a rename", renamed), ("Tab jumps, Tab takes: the next place", neovim.terminal.colours)]
    assert "pricecost" in picture("next-edit", "Neovim Tab", screens)


def test_picture_of_the_menu_of_code_actions(visible: Callable[..., Neovim], picture: Picture) -> None:
    neovim = visible(FILL)
    neovim.type("jf?gra")
    neovim.terminal.shows("together")
    assert "Fill" in picture("code-actions", "Neovim gra", [("", neovim.terminal.colours)])


def frames_of(neovim: Neovim, command: str) -> list[tuple[str, str]]:
    """The screens while a command fills FILL, with what stands above them. The last is that of the answer."""
    neovim.lua("vim.cmd(...)", command)
    frames = dict[str, str]()

    def look() -> bool:
        """Whether the answer is seen for the second time: the first look may be at a screen that is being drawn."""
        was_filled = "filled" in frames
        caption, *rows = neovim.terminal.colours.splitlines()[: len(FILL.splitlines()) + 1]
        screen = "\n".join(rows)
        if "???" not in Text.from_ansi(screen).plain:
            frames[Text.from_ansi(caption).plain.strip()] = screen
        return was_filled

    until(look, "the holes are filled")
    return list(frames.items())


def parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True

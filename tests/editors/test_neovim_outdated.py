"""A suggestion that the text no longer agrees with, in Neovim: with the plugin, and with `minimal.lua` alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editors.conftest import StartNeovim
from tests.editors.neovim import GHOSTS, SNIPPET, Neovim
from tests.editors.partner import Partner
from tests.editors.places import until

TEXT = """\
# {number}
import os


def parent(path):
    return os.path.dirname(path)


def size(path):
    return os.path."""
GHOST = "dirname(path)"
LONG = "if path:\n        return 1\n    return 2"


@pytest.fixture(params=["plugin", "lines"])
def neovim(
    request: pytest.FixtureRequest, start_neovim: StartNeovim, plugin_init: Path, model: Partner
) -> Iterator[Neovim]:
    model.answers(GHOST)
    neovim = start_neovim("\n", plugin_init if request.param == "plugin" else SNIPPET).attached()
    yield neovim
    assert (neovim.messages, neovim.said) == ("", [])


class Typist:
    """Has Neovim suggest the same again and again, each time in a text of its own, which is no undo."""

    def __init__(self, neovim: Neovim) -> None:
        self.neovim, self.number = neovim, 0

    def suggested(self, begun: str = "", behind: str = "", ghost: str = GHOST) -> str:
        """The text, which ends with `begun` and `behind`, once the ghost is shown between them."""
        self.number += 1
        text = TEXT.format(number=self.number) + begun + behind
        self.neovim.type("<Esc>")
        until(lambda: self.neovim.rpc.api.get_mode()["mode"] == "n", "insert mode is left")
        self.neovim.rpc.current.buffer[:] = text.split("\n")
        self.neovim.type("GA" + "<Left>" * len(behind))
        until(lambda: self.neovim.shown(GHOSTS) == [ghost], f"{ghost!r} is shown")
        return text

    def typed(self, keys: str) -> str:
        """The text once Neovim has read `keys`, which come together, and has done what it put off."""
        self.neovim.type(keys)
        self.neovim.lua("vim.wait(50)")
        return self.neovim.text.removesuffix("\n")


CASES = {
    "d<Tab>": GHOST,
    "di<Tab>": GHOST,
    "z<Tab>": "z ",
    "dirx<Tab>": "dirx ",
    "qw<Tab>": "qw ",
    f"{GHOST}<Tab>": f"{GHOST} ",
    "<CR><Tab>": "\n ",
    "dx<BS><Tab>": GHOST,
    "<Tab>[0]": f"{GHOST}[0]",
    "<Tab><Tab>": f"{GHOST} ",
    "<Left><Tab>": " .",
    "<Up><Up><Tab>": "",
    "<C-o>:let x = 1<CR>z<Tab>": "z ",
}
"""Keys that come together, and what is left of them behind the dot."""


def test_only_what_still_fits_is_taken(neovim: Neovim, partner: Partner) -> None:
    typist = Typist(neovim)
    for keys, left in CASES.items():
        before = typist.suggested()
        with partner.held():
            wanted = before.removesuffix(".") + left if left == " ." else before + left
            assert code(typist.typed(keys)) == code(wanted), keys


def code(text: str) -> str:
    """The text without its white space, of which Neovim's indentation makes its own."""
    return "".join(text.split())


OUTSIDE = {
    "an import at the top": "vim.api.nvim_buf_set_lines(0, 0, 0, true, { 'import sys' })",
    "something in front": "vim.api.nvim_buf_set_text(0, 9, 4, 9, 4, { 'x = ' })",
    "as much in front": "vim.api.nvim_buf_set_text(0, 9, 11, 9, 13, { 'xx' })",
    "something behind": "vim.api.nvim_buf_set_text(0, 9, 19, 9, 19, { ')' })",
    "the line above": "vim.api.nvim_buf_set_lines(0, 8, 9, true, {})",
}


@pytest.mark.parametrize("keys", ["<Tab>", "<C-Right>", "<C-Down>"])
def test_an_edit_from_outside_takes_the_ghost_away(neovim: Neovim, partner: Partner, keys: str) -> None:
    typist = Typist(neovim)
    for what, edit in OUTSIDE.items():
        typist.suggested()
        with partner.held():
            asked = neovim.recorded("requests")
            neovim.lua(edit)
            edited = neovim.text
            assert code(typist.typed(keys)) == code(edited), what
            assert neovim.shown(GHOSTS) == [] or neovim.recorded("requests") != asked, what


ELSEWHERE = ("an import at the top", "the line above")


def test_tab_takes_a_ghost_that_moved_with_its_line(neovim: Neovim, partner: Partner) -> None:
    typist = Typist(neovim)
    for what in ELSEWHERE:
        typist.suggested()
        with partner.held():
            edited = neovim.lua(
                f"{OUTSIDE[what]} vim.api.nvim_input('<Tab>') return vim.api.nvim_buf_get_lines(0, 0, -1, true)"
            )
            neovim.lua("vim.wait(50)")  # the key comes before Neovim draws again
            assert code(neovim.text) == code("".join(edited) + GHOST), what


def test_the_ghost_goes_with_the_first_key_that_disagrees(neovim: Neovim, partner: Partner) -> None:
    typist = Typist(neovim)
    for keys, ghost in {"d": ["irname(path)"], "q": [], "<CR>": [], "<Left>": [], "<Up>": [], "<BS>": []}.items():
        typist.suggested()
        with partner.held():
            typist.typed(keys)
            assert neovim.shown(GHOSTS) == ghost, keys
    for keys in ("<Cmd>vsplit<CR>", "<Cmd>vnew<CR>"):
        typist.suggested()
        buffer = neovim.rpc.current.buffer
        with partner.held():
            typist.typed(keys)
            assert neovim.shown(GHOSTS, buffer.number) == [], keys
        typist.typed("<Esc><Cmd>close!<CR>")


def test_a_suggestion_whose_line_went_is_dropped(neovim: Neovim, partner: Partner) -> None:
    asked, answered = (f"{state} textDocument/inlineCompletion" for state in ("pending", "complete"))
    neovim.rpc.current.buffer[:] = TEXT.split("\n")
    with partner.held():
        neovim.type("GA")
        until(lambda: asked in neovim.recorded("requests"), "the server is asked")
        neovim.lua("vim.o.eventignore = 'CursorMovedI' vim.api.nvim_buf_set_lines(0, 3, -1, true, {})")
    until(lambda: answered in neovim.recorded("requests"), "it has answered")
    neovim.lua("vim.wait(50)")
    assert neovim.shown(GHOSTS) == []


def test_a_buffer_without_a_name_has_ghost_text(neovim: Neovim) -> None:
    neovim.rpc.command("enew | setfiletype python")
    typist = Typist(neovim)
    before = typist.suggested()
    assert code(typist.typed("<Tab>")) == code(before + GHOST)


def test_ghost_text_hides_nothing_behind_the_cursor(neovim: Neovim, partner: Partner) -> None:
    partner.answers(GHOST.removeprefix("d"))
    typist = Typist(neovim)
    text = typist.suggested("d", ", 1)", GHOST.removeprefix("d"))
    assert neovim.screen[9] == f"    return os.path.{GHOST}, 1)"
    assert typist.typed("<Tab>") == text.replace("d, 1)", f"{GHOST}, 1)")


def test_files_with_crlf_stay_so(neovim: Neovim, partner: Partner) -> None:
    partner.answers(LONG)
    file = Path(str(neovim.rpc.current.buffer.name)).with_name("dos.py")
    text = TEXT.removesuffix("return os.path.")
    file.write_bytes(text.replace("\n", "\r\n").encode() + b"\r\n")
    neovim.type(f"<Esc>:edit {file}<CR>")
    until(lambda: neovim.rpc.current.buffer.options["fileformat"] == "dos", "the file is open")
    neovim.type("GA")
    until(lambda: neovim.shown(GHOSTS) == [LONG], "the suggestion is shown, without line ends")
    neovim.type("<Tab><Esc>:write<CR>")
    wanted = (text + LONG + "\n").replace("\n", "\r\n").encode()
    until(lambda: file.read_bytes() == wanted or None, "it is in the file")


def test_a_buffer_that_may_not_change_does_not(neovim: Neovim) -> None:
    typist = Typist(neovim)
    before = typist.suggested()
    neovim.rpc.current.buffer.options["modifiable"] = False
    assert typist.typed("<Tab>") == before
    assert "E21" in neovim.messages  # what Neovim says of any key
    neovim.rpc.current.buffer.options["modifiable"] = True
    neovim.rpc.command("messages clear")


def test_tab_jumps_in_a_snippet(neovim: Neovim) -> None:
    neovim.type("i")
    until(lambda: neovim.rpc.api.get_mode()["mode"] == "i", "text is inserted")
    neovim.lua("vim.snippet.expand('for ${1:item} in ${2:items}:$0')")
    for name, column in (("key", len("for key in ")), ("keys", len("for key in keys:"))):
        neovim.type(name)
        until(lambda name=name: f"{name}:" in neovim.text or f"{name} in" in neovim.text, "the place is filled")
        neovim.type("<Tab>")
        until(lambda column=column: neovim.rpc.current.window.cursor[1] == column or None, "the cursor is at the next")
    assert neovim.text.strip() == "for key in keys:"

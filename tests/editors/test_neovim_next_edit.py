"""The next edit in a real Neovim: a rename over three places takes three Tabs; keys keep the user's mapping."""

from pathlib import Path

import pytest

from tests.editors.conftest import StartNeovim
from tests.editors.neovim import Neovim
from tests.editors.places import until

OFFERS = "infill.next_edit"
TEXT = "def f():\n    count = 1\n    print(count)\n    return count\n"
RENAMED = TEXT.replace("count", "total")


@pytest.fixture
def neovim(start_neovim: StartNeovim, plugin_init: Path) -> Neovim:
    return started(start_neovim, plugin_init, TEXT)


def started(start_neovim: StartNeovim, init: Path, text: str, before: str = "") -> Neovim:
    """Without ghost text, whose model is still loading for a while."""
    init.write_text(before + init.read_text().replace("setup({", "setup({ suggestions = false,", 1))
    neovim = start_neovim(text, init)
    until(lambda: neovim.lua("return #vim.lsp.get_clients({ name = 'infill', bufnr = 0 })"), "the server has started")
    return neovim


def rename(neovim: Neovim) -> None:
    neovim.type("jwcwtotal<Esc>")
    offered(neovim)


def offered(neovim: Neovim, text: str = "total") -> None:
    until(lambda: text in neovim.shown(OFFERS), "the next edit is shown")


def tab_until(neovim: Neovim, wanted: str) -> None:
    """Press Tab while an edit is shown: it jumps there, or accepts it."""

    def is_wanted() -> bool:
        if neovim.shown(OFFERS):
            neovim.type("<Tab>")
            neovim.lua("vim.wait(50)")
        return neovim.text == wanted

    until(is_wanted, "every edit is taken")


def test_a_rename_over_three_places_takes_three_tabs(neovim: Neovim) -> None:
    rename(neovim)
    assert neovim.screen[2] == "    print(counttotal)"
    neovim.type("<Tab>")
    until(lambda: neovim.lua("return vim.fn.line('.')") == 3, "the cursor is at the first place")
    assert neovim.text == TEXT.replace("count", "total", 1)
    neovim.type("<Tab>")
    until(lambda: neovim.lua("return vim.fn.line('.')") == 4, "the first is taken, and the cursor at the second")
    neovim.type("<Tab>")
    until(lambda: neovim.text == RENAMED, "all are renamed")
    until(lambda: neovim.shown(OFFERS) == [], "nothing is left to show")


def test_escape_takes_a_place_off_for_good(neovim: Neovim) -> None:
    rename(neovim)
    assert len(neovim.shown(OFFERS)) == 2
    neovim.type("<Esc>")
    until(lambda: neovim.shown(OFFERS) == [], "it is gone")
    neovim.type("Gox = 1<Esc>")
    until(lambda: neovim.screen[3] == "    return counttotal", "the other place is shown")
    assert neovim.screen[2] == "    print(count)"


def test_the_keys_are_the_users_own_where_nothing_is_shown(start_neovim: StartNeovim, plugin_init: Path) -> None:
    mapped = "vim.api.nvim_create_autocmd('BufEnter', { callback = function(event)\n"
    mapped += "  vim.keymap.set('n', '<Tab>', 'ix<Esc>', { buf = event.buf })\nend })\n"
    neovim = started(start_neovim, plugin_init, TEXT, mapped)
    neovim.type("<Tab>")
    until(lambda: neovim.text == "x" + TEXT, "the user's own key")
    neovim.type("u")
    rename(neovim)
    neovim.type("<Tab><Esc>")
    until(lambda: neovim.shown(OFFERS) == [], "dismissed")
    assert neovim.text == TEXT.replace("count", "total", 1)
    neovim.type("gg0<Tab>")
    until(lambda: neovim.text.startswith("x"), "the user's own key again")


def test_what_is_typed_meanwhile_is_not_overwritten(neovim: Neovim) -> None:
    rename(neovim)
    for number in range(5):
        neovim.type(f"Go# {number}<Esc>gg<Tab>")
    tab_until(neovim, RENAMED + "".join(f"# {number}\n" for number in range(5)))


def test_an_edit_is_taken_in_insert_mode_too(neovim: Neovim) -> None:
    neovim.type("jwcwtotal")
    offered(neovim)
    neovim.type("<Tab><Tab>")
    until(lambda: neovim.text == TEXT.replace("count", "total", 2), "the first is taken")
    until(lambda: neovim.lua("return vim.fn.line('.')") == 4, "the cursor is at the second")
    neovim.type("<Tab>")
    until(lambda: neovim.text == RENAMED, "and the second is taken")
    neovim.type("<Esc>u")
    until(lambda: neovim.text == TEXT.replace("count", "total", 2), "one undo takes back one edit")


def test_a_buffer_that_may_not_change_does_not(neovim: Neovim) -> None:
    rename(neovim)
    neovim.rpc.current.buffer.options["modifiable"] = False
    neovim.type("<Tab><Tab>")
    neovim.lua("vim.wait(100)")
    assert neovim.text == TEXT.replace("count", "total", 1)
    assert neovim.messages == ""


def test_help_gets_no_server(neovim: Neovim) -> None:
    neovim.type(":help<CR>")
    until(lambda: neovim.rpc.current.buffer.options["buftype"] == "help", "help is shown")
    neovim.lua("vim.wait(200)")
    assert neovim.lua("return #vim.lsp.get_clients({ bufnr = 0 })") == 0


def test_the_hint_says_where_a_place_out_of_sight_is(start_neovim: StartNeovim, plugin_init: Path) -> None:
    neovim = started(start_neovim, plugin_init, "limit = 1\n" + "\n" * 60 + "print(limit)\n")
    neovim.type("cwmost<Esc>")
    offered(neovim, " line 62: most")
    neovim.type("<Tab><Tab>")
    until(lambda: neovim.text.endswith("print(most)\n"), "it is taken")


def test_a_change_reaches_a_file_that_imports_it(neovim: Neovim) -> None:
    file = Path(str(neovim.lua("return vim.api.nvim_buf_get_name(0)")))
    other = file.with_name("other.py")
    other.write_text(f"from {file.stem} import f\n\nprint(f())\n")
    neovim.type(f"wcwtotal<Esc>:write<CR>:edit {other}<CR>")
    tab_until(neovim, f"from {file.stem} import total\n\nprint(total())\n")

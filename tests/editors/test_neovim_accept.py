"""What is accepted in Neovim is like typed text: no menu takes it away, undo, `.`, counts and macros know it.

With the plugin, and, where it says `lines`, with `minimal.lua` alone.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editors.conftest import StartNeovim
from tests.editors.neovim import GHOSTS, Neovim
from tests.editors.partner import Partner
from tests.editors.places import until
from tests.editors.test_neovim_outdated import GHOST, LONG, TEXT, Typist, neovim

either = neovim
"""With the plugin, then with the lines."""
PLAIN = "setlocal noautoindent indentexpr= textwidth=0"
OPTIONS = "setlocal autoindent cindent textwidth=12 formatoptions=tcqa expandtab shiftwidth=3 indentkeys=o,0},:"
MENU = {
    "noselect": "set completeopt=menuone,noselect",
    "autocomplete": "set completeopt=menuone,noselect autocomplete",
    "fuzzy": "set completeopt=menuone,noselect,fuzzy",
}


@pytest.fixture
def plugin(start_neovim: StartNeovim, plugin_init: Path, model: Partner) -> Iterator[Neovim]:
    model.answers(GHOST)
    neovim = start_neovim("\n", plugin_init).attached()
    neovim.rpc.command(PLAIN)
    yield neovim
    assert (neovim.messages, neovim.said) == ("", [])


def menu(neovim: Neovim) -> bool:
    return bool(neovim.lua("return vim.fn.pumvisible()"))


def with_menu(typist: Typist, options: str) -> str:
    """The text behind which a ghost and the popup menu, with nothing selected, are shown."""
    neovim = typist.neovim
    neovim.rpc.command(options)
    typist.suggested(ghost=GHOST)
    neovim.type("di" if "autocomplete" in options else "di<C-n>")
    until(lambda: menu(neovim) and neovim.shown(GHOSTS) == [GHOST.removeprefix("di")], "both are shown")
    return neovim.text.removesuffix("di\n")


@pytest.mark.parametrize("options", MENU.values(), ids=MENU)
def test_the_menu_cannot_take_back_what_is_accepted(either: Neovim, options: str) -> None:
    typist = Typist(either)
    for key in ("<C-y>", "<C-e>"):
        before = with_menu(typist, options)
        either.type("<Tab>")
        until(lambda before=before: either.text == f"{before}{GHOST}\n", "the ghost is taken")
        assert not menu(either)
        after = typist.typed(key)
        assert after.startswith(before + GHOST), key  # Ctrl-Y and Ctrl-E without a menu copy from the next lines
        either.type("<Esc>")


def test_tab_is_the_menus_while_an_item_is_selected(either: Neovim) -> None:
    typist = Typist(either)
    with_menu(typist, "set completeopt=menuone,noinsert,noselect")
    either.type("<Down>")
    until(lambda: not either.shown(GHOSTS), "the ghost is hidden")
    selected = "return vim.fn.complete_info({ 'selected' }).selected"
    assert either.lua(selected) == 0
    either.type("<Up>")
    until(lambda: either.lua(selected) == -1, "nothing is selected")
    either.type("<C-e>")
    until(lambda: either.shown(GHOSTS), "the ghost is back")


def test_undo_takes_back_what_was_accepted_alone(either: Neovim) -> None:
    typist = Typist(either)
    before = typist.suggested()
    after = typist.typed("d<Tab>[0]<Esc>")
    assert after == f"{before}{GHOST}[0]"
    assert [typist.typed("u") for _ in range(3)] == [before + GHOST, f"{before}d", before]
    assert [typist.typed("<C-r>") for _ in range(3)] == [f"{before}d", before + GHOST, after]
    either.rpc.command("messages clear")  # what Neovim says of each undo


def test_a_dot_and_a_count_repeat_what_was_accepted(either: Neovim) -> None:
    typist = Typist(either)
    before = typist.suggested()
    either.type("<Esc>" + "A")
    until(lambda: either.shown(GHOSTS) == [GHOST], "it is shown again")
    assert typist.typed("d<Tab>[0]<Esc>.") == f"{before}{GHOST}[0]{GHOST}[0]"
    typist.suggested()
    either.type("<Esc>3A")
    until(lambda: either.shown(GHOSTS) == [GHOST], "it is shown again")
    assert typist.typed("<Tab>,<Esc>").endswith("." + f"{GHOST}," * 3)


def test_no_option_or_hook_changes_what_is_accepted(plugin: Neovim, partner: Partner) -> None:
    plugin.lua("vim.paste = function() error('the user has pasted nothing') end")
    plugin.rpc.command(f"iabbrev path x | {OPTIONS}")
    partner.answers(LONG)
    text = TEXT.removesuffix("return os.path.")
    plugin.rpc.current.buffer[:] = text.split("\n")
    plugin.type("GA")
    until(lambda: plugin.shown(GHOSTS) == [LONG], "the suggestion is shown")
    plugin.type("<Tab>")
    until(lambda: plugin.text == f"{text}{LONG}\n", "it is taken as it was shown")


def test_a_macro_replays_what_was_accepted(plugin: Neovim, partner: Partner) -> None:
    ghost = 'join("größe — 50 %")'
    partner.answers(ghost)
    typist = Typist(plugin)
    for key, taken in {"<C-Right>": "join", "<Tab>": ghost}.items():
        before = typist.suggested(ghost=ghost)
        plugin.type("<Esc>qqA")
        until(lambda: plugin.shown(GHOSTS) == [ghost], "it is shown again")
        assert typist.typed(f"{key}.<Esc>q2@q") == before + f"{taken}." * 3


MAPPINGS = {
    "inoremap <Tab> mine": "mine",
    "lua vim.keymap.set('i', '<Tab>', function() vim.api.nvim_put({ 'lua' }, 'c', false, true) end)": "lua",
    "inoremap <expr> <Tab> getline('.') =~ 'x' ? 'far' : '<Tab>'": "far",
    "imap <Tab> <Tab>more": "\tmore",
    "imap <expr> <Tab> '<Tab>more'": "\tmore",
    "imap <Tab> <F5>": "five",
    "iunmap <Tab>": "\t",
}


def test_without_a_ghost_tab_is_the_users(plugin: Neovim) -> None:
    plugin.lua("vim.lsp.inline_completion.enable(false, { bufnr = 0 })")
    plugin.rpc.command("setlocal noexpandtab | inoremap <F5> five")
    for mapping, wanted in MAPPINGS.items():
        plugin.rpc.command(mapping)
        plugin.type("<Esc>ccx<Tab><Tab>.")
        until(lambda: plugin.text.endswith(".\n"), "the keys are typed")
        assert plugin.text == f"x{wanted}{wanted}.\n", mapping
        plugin.type("<BS>")
        until(lambda: not plugin.text.endswith(".\n"), "the dot is gone")


@pytest.mark.parametrize("where", ["", "<buffer>"], ids=["everywhere", "here"])
def test_tab_stays_what_it_was_before_setup(start_neovim: StartNeovim, plugin_init: Path, where: str) -> None:
    first = f"vim.cmd([[autocmd BufRead * imap {where} <expr> <Tab> '<Tab>more']])\n"
    plugin_init.write_text(first + plugin_init.read_text())
    neovim = start_neovim("\n", plugin_init, "main.txt").attached()
    neovim.lua("vim.lsp.inline_completion.enable(false, { bufnr = 0 })")
    neovim.rpc.command(f"{PLAIN} noexpandtab")
    neovim.type("ix<Tab><Tab>.")
    until(lambda: neovim.text == "x\tmore\tmore.\n", "both are the user's")


def test_an_abbreviation_expands_on_tab(plugin: Neovim) -> None:
    plugin.rpc.command("iabbrev teh the")
    plugin.lua("vim.lsp.inline_completion.enable(false, { bufnr = 0 })")
    plugin.rpc.command("setlocal noexpandtab")
    plugin.type("iteh<Tab>.<Esc>")
    until(lambda: plugin.text.endswith(".\n"), "the keys are typed")
    assert plugin.text == "the\t.\n"


def test_tab_is_the_users_while_a_menu_is_open(plugin: Neovim) -> None:
    plugin.rpc.command("inoremap <expr> <Tab> pumvisible() ? '<C-n>' : '<Tab>'")
    typist = Typist(plugin)
    plugin.rpc.command(MENU["noselect"])
    before = typist.suggested()
    plugin.type("di<C-n>")
    until(lambda: menu(plugin) and not plugin.shown(GHOSTS), "the ghost is hidden")
    plugin.type("<Tab>")
    until(lambda: plugin.text == f"{before}dirname\n", "the next item is inserted")
    plugin.type("<C-e>")
    until(lambda: plugin.shown(GHOSTS), "without a menu there is a ghost again")
    assert typist.typed("<Tab>") == before + GHOST


def test_nothing_is_shown_in_replace_mode(either: Neovim) -> None:
    Typist(either).suggested()
    either.type("<Insert>")
    until(lambda: not either.shown(GHOSTS), "the ghost is hidden")


def test_a_snooze_keeps_everything_quiet_for_minutes(plugin: Neovim) -> None:
    typist = Typist(plugin)
    typist.suggested()
    plugin.type("<Esc>:Infill snooze 3<CR>")
    until(lambda: plugin.lua("return require('infill').status()") == "infill: snoozed 3 min", "it is snoozed")
    before = len(plugin.recorded("requests"))
    plugin.type("Adi<BS><BS><Esc>")
    plugin.lua("vim.wait(500)")  # longer than Neovim waits before it asks
    assert [request for request in plugin.recorded("requests")[before:] if request.startswith("pending")] == []
    plugin.type(":Infill snooze x<CR>")
    until(lambda: plugin.said, "wrong minutes are refused")
    assert "not 'x'" in plugin.said[0]
    plugin.lua("said = {}")
    plugin.type(":Infill resume<CR>")
    until(lambda: "snoozed" not in plugin.lua("return require('infill').status()"), "it is not snoozed")
    typist.suggested()
    plugin.type("<Esc>:Infill snooze 0.02<CR>")
    typist.suggested()  # without a resume


@pytest.mark.parametrize("command", ["fill", "function", "file"])
def test_commands_fill_during_a_snooze(plugin: Neovim, command: str) -> None:
    plugin.type(":Infill snooze<CR>")
    until(lambda: plugin.lua("return require('infill').status()") == "infill: snoozed 10 min", "it is snoozed")
    text = TEXT.format(number=0)
    plugin.rpc.current.buffer[:] = f"{text}???".split("\n")
    plugin.type(f"G$:Infill {command}<CR>")
    until(lambda: plugin.text == f"{text}{GHOST}\n", "the hole is filled")
    assert "snoozed" in plugin.lua("return require('infill').status()")
    plugin.rpc.command("messages clear")  # what Neovim says of each edit


def test_a_word_at_a_time_no_closer_comes_twice(plugin: Neovim, partner: Partner) -> None:
    partner.answers(r'f(\\", [1]) + size')
    typist = Typist(plugin)
    before = typist.suggested('join("', '")', ghost=r'f(\\", [1]) + size').removesuffix('")')
    with partner.held():
        for taken in ('f")', r'f(\\",)', r'f(\\", [)', r'f(\\", [1)', r'f(\\", [1])', r'f(\\", [1]) +'):
            assert typist.typed("<C-Right>") == before + taken

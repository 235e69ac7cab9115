"""The Neovim plugin's additions: partial accepts, drafts that settle, commands, status, clear error messages."""

import re
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.editors.conftest import StartNeovim
from tests.editors.neovim import DRAFTS, GHOSTS, HOLES, LINE, PLUGIN, Neovim
from tests.editors.partner import Partner
from tests.editors.places import until

MASKED = Path(__file__).parents[1] / "data" / "masked"
WORD = re.compile(r"\s*(?:\w+|[^\w\s]+)")
INIT = "class Shape{0}:\n    def __init__(self, name, size):\n        self.name = name\n        self."
_LUA = Path(__file__).with_name("neovim_plugin.lua").read_text(encoding="utf-8")
SPY, DRAW = f"{_LUA}\nspy_on_commands()", f"{_LUA}\ndraw(...)"
FIRST_RUN = Path(__file__).with_name("first_run.lua")


def test_a_word_is_accepted_then_the_next_then_the_rest(start_neovim: StartNeovim, plugin_init: Path) -> None:
    neovim = start_neovim("\n", plugin_init).attached()
    before, ghost = suggestion_of_several_words(neovim)
    first, second, *_ = WORD.findall(ghost)
    neovim.type("<C-Right>")
    until(lambda: neovim.text != f"{before}\n", "a word is accepted")
    assert neovim.text == f"{before}{first}\n"
    left = ghost.removeprefix(first)
    until(lambda: left in [*neovim.shown(DRAFTS), *neovim.shown(GHOSTS)], "the rest is still shown")
    neovim.type("<C-Right>")
    until(lambda: neovim.text == f"{before}{first}{second}\n", "the next word is accepted")
    accepts = until(lambda: accepts_of_two(neovim), "the server is told")
    assert accepts[0]["acceptedLength"] == len(first)
    neovim.type("<Tab>")
    until(lambda: neovim.text == f"{before}{ghost}\n", "Tab takes the rest, from Neovim or from the plugin")


def accepts_of_two(neovim: Neovim) -> list[dict[str, Any]]:
    """What the server was told of two accepted parts; empty if it was told of fewer."""
    sent = [params for method, params in neovim.recorded("sent") if method == "infill/didAccept"]
    return sent if len(sent) == 2 else []


def test_a_line_is_accepted_and_what_follows_it_is_left(start_neovim: StartNeovim, plugin_init: Path) -> None:
    neovim = start_neovim(LINE, plugin_init)
    measure = "local accept = require('infill.accept'); return accept[...](select(2, ...))"
    assert neovim.lua(measure, "line_end", "a + b\n    more") == len("a + b")
    assert neovim.lua(measure, "line_end", "\n    more\nyet") == len("\n    more")
    assert neovim.lua(measure, "line_end", "a + b") == len("a + b")
    assert neovim.lua(measure, "word_end", " größe(x)") == len(" größe".encode())
    assert neovim.lua(measure, "word_end", "(x)") == len("(")
    assert neovim.lua(measure, "word_end", "\n    if x:") == len("\n    if")


def test_the_server_is_told_where_the_cursor_rests(start_neovim: StartNeovim, plugin_init: Path) -> None:
    neovim = start_neovim("x = 1\ny = 2\n", plugin_init).attached()
    neovim.type("<Esc>j$")
    until(lambda: {"line": 1, "character": 4} in rests(neovim), "the server is told")


def rests(neovim: Neovim) -> list[dict[str, int]]:
    return [params["position"] for method, params in neovim.recorded("sent") if method == "infill/didRest"]


def test_a_key_does_what_it_did_where_nothing_is_suggested(start_neovim: StartNeovim, plugin_init: Path) -> None:
    before = "vim.keymap.set('i', '<C-]>', function() return 'mine' end, { expr = true })\n"
    plugin_init.write_text(before + plugin_init.read_text())
    neovim = start_neovim("x = 1\n", plugin_init, "main.txt").attached()
    neovim.lua("vim.lsp.inline_completion.enable(false, { bufnr = 0 })")
    neovim.type("A<C-]><Tab>.<Esc>")
    until(lambda: neovim.text.endswith(".\n"), "the keys are typed")
    assert neovim.text == "x = 1mine\t.\n"


def test_drafts_are_shown_until_the_suggestion_is_there(
    start_neovim: StartNeovim, plugin_init: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a model that takes several steps for a line; the bundled one is often done after a few."""
    monkeypatch.setenv("INFILL_LS_MODEL", str(MASKED))
    neovim = start_neovim("\n", plugin_init).attached()
    steps: list[list[int]] = []
    for number in range(8):
        if any(len(shown) > 1 for shown in steps):
            break
        before = len(neovim.recorded("drafts"))
        suggestion_for(neovim, INIT.format(number))
        steps.append([draft["step"] for draft in neovim.recorded("drafts")[before:]])
        assert steps[-1] == sorted(steps[-1])
        until(lambda: neovim.shown(DRAFTS) == [], "the drafts are gone")
    assert any(len(shown) > 1 for shown in steps), steps


def test_draft_hides_what_it_would_replace(start_neovim: StartNeovim, plugin_init: Path) -> None:
    neovim = start_neovim("f(???, 2)\nlong = [1,\n  2]\nend\n", plugin_init).attached()
    draw(neovim, hole(0, 2, 0, 5, ["alp", "ha", "bet"]), hole(1, 7, 2, 4, ["x", "\n", "y", "\nz"]))
    assert neovim.screen[:5] == ["f(alphabet, 2)", "long = x", "y", "z", "end"]
    draw(neovim, hole(0, 2, 0, 5, ["é"]))
    assert neovim.screen[0] == "f(é  , 2)"
    draw(neovim, hole(0, 2, 0, 5, ["old"]), version=-1)
    assert neovim.screen[0] == "f(é  , 2)"
    neovim.type("Go<Esc>")
    until(lambda: neovim.screen[0] == "f(???, 2)", "an edit takes the draft away")


def test_each_token_is_tinted_by_how_sure_the_model_is(start_neovim: StartNeovim, plugin_init: Path) -> None:
    neovim = start_neovim("x = \n", plugin_init).attached()
    draw(neovim, {**hole(0, 4, 0, 4, ["a", "b", "c", "d"]), "confidences": [1.0, 0.7, 0.4, 0.1]})
    marks = "return vim.api.nvim_buf_get_extmarks(0, vim.api.nvim_get_namespaces()[...], 0, -1, { details = true })"
    (mark,) = neovim.lua(marks, DRAFTS)
    groups = [group for _, group in mark[3]["virt_text"]]
    assert groups == ["InfillSure", "InfillLikely", "InfillUnsure", "InfillNoise"]
    assert all(neovim.lua("return vim.api.nvim_get_hl(0, { name = ... }).fg", group) for group in groups)


def noted(start_neovim: StartNeovim, project: Path, options: str) -> tuple[Neovim, list[str]]:
    """A Neovim whose plugin is set up so, and what it has said by the end of its init.lua."""
    init = project / "noted.lua"
    init.write_text(
        f"said = {{}}; vim.notify = function(message) table.insert(said, message) end\n"
        f"vim.opt.runtimepath:prepend('{PLUGIN}')\n"
        f"require('infill').setup({options})\nearly = said\n"
    )
    neovim = start_neovim(LINE, init)
    return neovim, neovim.lua("return early")


def test_bad_options_are_reported_and_the_rest_used(start_neovim: StartNeovim, project: Path) -> None:
    neovim, (problems,) = noted(start_neovim, project, "{ drafts = 'yes', keymaps = { accept = 5 }, colour = 1 }")
    wanted = ("drafts must be true or false", "keymaps.accept must be a key or false", "no option 'colour'")
    assert problems.count("; ") == 5 and all(words in problems for words in wanted)
    neovim.attached()


def test_the_server_runs_in_the_projects_folder(start_neovim: StartNeovim, project: Path, plugin_init: Path) -> None:
    (project / "infill-ls.toml").touch()
    neovim = start_neovim(LINE, plugin_init).attached()
    children = psutil.Process(neovim.lua("return vim.fn.getpid()")).children()
    assert [child.cwd() for child in children if child.cmdline()[-1] == "serve"] == [str(project.resolve())]


def test_missing_server_is_reported_also_by_checkhealth(start_neovim: StartNeovim, project: Path) -> None:
    neovim, (problem,) = noted(start_neovim, project, "{ cmd = { 'no-such-infill-ls', 'serve' } }")
    assert "no server 'no-such-infill-ls'" in problem
    assert ":Infill install" in problem
    neovim.type(":checkhealth infill<CR>")
    until(lambda: "Install it: :Infill install" in neovim.text, "the report is there")


def test_a_message_wider_than_the_screen_waits_for_no_key(start_neovim: StartNeovim, plugin_init: Path) -> None:
    neovim = start_neovim(LINE, plugin_init, size=(40, 15))
    neovim.lua("vim.notify = neovims_notify")
    for name in ("first", "second"):
        neovim.type(f":Infill {name}<CR>")
        until(lambda name=name: f"no ':Infill {name}'" in "".join(neovim.screen), "it is shown")  # type: ignore[misc]
        assert not neovim.rpc.api.get_mode()["blocking"] and "status, toggle" in "".join(neovim.screen)


def test_a_new_user_chooses_once_but_not_while_typing(
    start_neovim: StartNeovim, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = project / "runtime"
    monkeypatch.setenv("INFILL_LS_RUNTIME_DIR", str(runtime))
    runtime.mkdir()
    runtime.chmod(0o755)  # no worker starts in a folder that others may read
    init = project / "first.lua"
    init.write_text(f"vim.opt.runtimepath:prepend('{PLUGIN}')\n{FIRST_RUN.read_text()}")
    neovim = start_neovim(LINE, init)
    until(lambda: neovim.lua("return answers > 0"), "the server could not look at this machine")
    assert neovim.lua("return #asked == 0")
    neovim.type("A")
    until(lambda: neovim.rpc.api.get_mode()["mode"] == "i", "text is inserted")
    runtime.chmod(0o700)
    waiting = "return #vim.api.nvim_get_autocmds({ event = 'ModeChanged', pattern = '*:n' }) > 0"
    until(lambda: neovim.lua(waiting), "it looks again until it knows, and waits for normal mode")
    assert neovim.lua("return #asked == 0 and vim.uv.fs_stat(told_file) == nil")
    neovim.type("<Esc>")
    until(lambda: neovim.lua("return #asked > 0 and vim.uv.fs_stat(told_file) ~= nil"), "it is asked and written down")
    ((mode, prompt, choices),) = neovim.lua("return asked")
    assert (mode, choices[0], choices[-1]) == ("n", "Download it", "Not now")
    assert "qwen2.5-coder-" in prompt


def test_health_status_and_toggle_tell_how_things_are(start_neovim: StartNeovim, plugin_init: Path) -> None:
    neovim = start_neovim(LINE, plugin_init)
    until(lambda: neovim.status().get("state") == "ready", "the worker has ended what earlier tests asked it")
    neovim.type(":Infill<CR>")
    until(lambda: neovim.said, "the status is shown")
    assert re.fullmatch(r"infill: ready \(.+ on .+\)", neovim.said[0])
    neovim.type(":Infill toggle<CR>")
    until(lambda: neovim.lua("return require('infill').status()") == "infill: off", "it is off")
    neovim.type(":Infill toggle<CR>")
    until(lambda: neovim.lua("return require('infill').status()") == "infill: ready", "it is on again")
    neovim.type(":Infill rework 7<CR>")
    until(lambda: len(neovim.said) > 1, "a wrong strength is refused")
    assert "a number from 0 to 1, not '7'" in neovim.said[1]
    neovim.type(":checkhealth infill<CR>")
    until(lambda: "The model, embedded, is ready" in neovim.text, "the report is there")
    assert "ERROR" not in neovim.text


def test_the_status_says_why_nothing_is_suggested(start_neovim: StartNeovim, plugin_init: Path, model: Partner) -> None:
    plugin_init.write_text(plugin_init.read_text().replace('model = "embedded"', 'model = "partner"'))
    neovim = start_neovim("ä = f(ü, )\n", plugin_init).attached()
    neovim.type("A<Left>")
    until(lambda: "complete textDocument/inlineCompletion" in neovim.recorded("requests"), "an answer comes")
    assert model.asked
    for number, keys in enumerate(["<Cmd>Infill status<CR>", "<Esc>:Infill status<CR>"]):
        neovim.type(keys)
        until(lambda wanted=number: len(neovim.said) > wanted, "the status is shown")  # type: ignore[misc]
        assert "; no suggestion here: the model found nothing" in neovim.said[number]


def suggestion_for(neovim: Neovim, text: str) -> str:
    neovim.type("<Esc>")
    until(lambda: neovim.rpc.api.get_mode()["mode"] == "n" and not neovim.shown(GHOSTS), "insert mode is left")
    neovim.rpc.current.buffer[:] = text.splitlines()
    neovim.type("GA")
    return neovim.ghost()


def suggestion_of_several_words(neovim: Neovim) -> tuple[str, str]:
    for number in range(12):
        text = INIT.format(number)
        ghost = suggestion_for(neovim, text)
        if len(WORD.findall(ghost)) > 2:
            return text, ghost
    raise AssertionError("the model suggests one or two words alone")


@pytest.mark.parametrize(
    ("keys", "start", "end"),
    [
        ("2G0fävfü", (1, 4), (1, 11)),
        ("2GVj", (1, 4), (2, 9)),
        ("2G0fä", (1, 4), (1, 4)),
        ("2GA<Esc>", (1, 11), (1, 11)),
    ],
    ids=["characters", "lines", "cursor", "cursor of insert mode"],
)
def test_a_command_is_about_what_is_selected(
    start_neovim: StartNeovim, plugin_init: Path, keys: str, start: tuple[int, int], end: tuple[int, int]
) -> None:
    """In bytes, as Neovim and the server have agreed; a character at the end is selected whole."""
    neovim = start_neovim("if x:\n    ä = ü\n    ä, x\n", plugin_init).attached()
    neovim.lua(SPY)
    neovim.type(f"{keys}:Infill rework 0<CR>")
    found = until(lambda: neovim.recorded("arguments"), "the command is sent")[0]["range"]
    assert (found["start"]["line"], found["start"]["character"]) == start
    assert (found["end"]["line"], found["end"]["character"]) == end


def test_a_command_that_is_cancelled_changes_nothing(
    start_neovim: StartNeovim, plugin_init: Path, model: Partner
) -> None:
    """The model answers nobody meanwhile, so that nothing but the cancelling can end it."""
    neovim = start_neovim(HOLES, plugin_init).attached()
    with model.held():
        neovim.type(":Infill file<CR>")
        model.until_asked()
        neovim.type(":Infill cancel<CR>")
        until(lambda: "complete workspace/executeCommand" in neovim.recorded("requests"), "the command has ended")
    assert neovim.text == HOLES
    assert neovim.said == []


def hole(line: int, start: int, end_line: int, end: int, pieces: list[str]) -> dict[str, Any]:
    places = {"start": {"line": line, "character": start}, "end": {"line": end_line, "character": end}}
    return {"range": places, "text": "".join(pieces), "pieces": pieces, "confidences": [0.5] * len(pieces)}


def draw(neovim: Neovim, *holes: dict[str, Any], **more: Any) -> None:
    neovim.lua(DRAW, {"kind": "action", "step": 1, "maxSteps": 2, "holes": list(holes), **more})

"""`:Infill install` in real Neovim: from no server to a model and its ghost text."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editors.conftest import require
from tests.editors.neovim import PLUGIN, Neovim
from tests.editors.pictures import WIDTH, Picture
from tests.editors.places import share_package_index, until
from tests.editors.test_vscode_install import BASKET, HALF_LINE, INSTALLING_S

SHOW = """
local keep = vim.notify
vim.notify = function(message)
  keep(message)
  vim.api.nvim_echo({ { message } }, false, {})
end
"""
"""The tests' own `vim.notify` shows nothing."""


@pytest.fixture
def neovim(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Neovim]:
    """Without the private network, since it needs the package index, and without a server on PATH."""
    require("nvim", "tmux")
    home = project / "home"
    home.mkdir()
    share_package_index(home)
    init = project / "init.lua"
    init.write_text(
        f"vim.opt.runtimepath:prepend('{PLUGIN}')\n"
        "vim.env.PATH = '/usr/local/bin:/usr/bin:/bin'\n"
        "vim.o.cmdheight = 6\n"  # long messages wait for no Enter
        "vim.o.termguicolors, vim.o.laststatus, vim.o.ruler, vim.o.fillchars = true, 0, false, 'eob: '\n"
        "vim.cmd.runtime('plugin/infill.lua')\n"
        "require('infill').setup({ settings = { deadlineMs = { automatic = 60000 } } })\n"
    )
    file = home / "basket.py"
    file.write_text(BASKET)
    monkeypatch.setenv("INFILL_LS_RUNTIME_DIR", str(project / "run"))
    (project / "run").mkdir(mode=0o700)
    neovim = Neovim(home, init, file, visible=True, size=(WIDTH, 20))
    neovim.lua(SHOW)
    yield neovim
    neovim.close()


@pytest.mark.timeout(4 * INSTALLING_S)
def test_commands_install_the_server_and_a_model(neovim: Neovim, picture: Picture) -> None:
    neovim.type(":Infill install<CR>")
    until(lambda: any("takes some minutes" in told for told in neovim.said), "it says what it does")
    neovim.type(":Infill cancel<CR>")
    until(lambda: any("cancelled" in told for told in neovim.said), "the installation is cancelled")
    folder = Path(neovim.lua("return vim.fn.stdpath('data')")) / "infill-ls"
    assert not folder.exists()

    began = time.monotonic()
    neovim.type(":Infill install<CR>")
    neovim.terminal.shows("takes some minutes")
    screens = [("", neovim.terminal.colours)]
    until(lambda: any(told.endswith("is installed") for told in neovim.said), "it is installed", INSTALLING_S)
    assert os.access(folder / "bin" / "infill-ls", os.X_OK)
    neovim.attached()
    took = {"server": time.monotonic() - began}
    neovim.terminal.shows("Download it")
    screens.append(("", neovim.terminal.colours))
    began = time.monotonic()
    neovim.type("1<CR>")
    until(lambda: "qwen" in str(neovim.status().get("model")), "the model is pulled and used", INSTALLING_S)
    took["model"] = time.monotonic() - began
    began = time.monotonic()
    neovim.type(f"{HALF_LINE[0]}GA.")
    ghost = neovim.ghost()
    took["ghost text"] = time.monotonic() - began
    neovim.terminal.shows(f"self.{ghost.splitlines()[0]}"[:30])
    screens.append(("", neovim.terminal.colours))
    picture("install", "Neovim", screens)
    print("seconds:", {what: round(seconds, 1) for what, seconds in took.items()})
    neovim.type("<Tab>")
    until(lambda: neovim.text == BASKET.replace("not in self", f"not in self.{ghost}"), "it is taken")

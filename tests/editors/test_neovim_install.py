"""`:Infill install` in real Neovim: from no server to ghost text."""

import os
from pathlib import Path

import pytest

from tests.editors.conftest import require
from tests.editors.neovim import GHOSTS, PLUGIN, Neovim
from tests.editors.places import share_package_index, until
from tests.editors.test_vscode_install import BASKET, HALF_LINE, INSTALLING_S


@pytest.fixture
def neovim(project: Path, monkeypatch: pytest.MonkeyPatch) -> Neovim:
    """Without the private network, since it needs the package index, and without a server on PATH."""
    require("nvim")
    home = project / "home"
    home.mkdir()
    share_package_index(home)
    init = project / "init.lua"
    init.write_text(
        f"vim.opt.runtimepath:prepend('{PLUGIN}')\n"
        "vim.env.PATH = '/usr/local/bin:/usr/bin:/bin'\n"
        "vim.cmd.runtime('plugin/infill.lua')\n"
        "require('infill').setup({ settings = { deadlineMs = { automatic = 60000 }, model = 'embedded' } })\n"
    )
    file = home / "basket.py"
    file.write_text(BASKET)
    monkeypatch.setenv("INFILL_LS_RUNTIME_DIR", str(project / "run"))
    (project / "run").mkdir(mode=0o700)
    return Neovim(home, init, file)


@pytest.mark.timeout(3 * INSTALLING_S)
def test_a_command_installs_the_server_and_it_fills(neovim: Neovim) -> None:
    try:
        neovim.type(":Infill install<CR>")
        until(lambda: any("takes some minutes" in told for told in neovim.said), "it says what it does")
        neovim.type(":Infill cancel<CR>")
        until(lambda: any("cancelled" in told for told in neovim.said), "the installation is cancelled")
        folder = Path(neovim.lua("return vim.fn.stdpath('data')")) / "infill-ls"
        assert not folder.exists()

        neovim.type(":Infill install<CR>")
        until(lambda: any(told.endswith("is installed") for told in neovim.said), "it is installed", INSTALLING_S)
        assert os.access(folder / "bin" / "infill-ls", os.X_OK)
        neovim.attached()
        neovim.type(f"{HALF_LINE[0]}GA.")
        [ghost] = until(lambda: neovim.shown(GHOSTS), "ghost text is shown")
        neovim.type("<Tab>")
        until(lambda: neovim.text == BASKET.replace("not in self", f"not in self.{ghost}"), "it is taken")
    finally:
        neovim.close()

"""`:Infill install` in real Neovim: from no server to the ghost text of a model that Neovim offered."""

import os
from pathlib import Path

import pytest

from tests.editors.conftest import require
from tests.editors.neovim import GHOSTS, PLUGIN, Neovim
from tests.editors.pictures import NARROW, Picture
from tests.editors.places import leave_download, share_package_index, until
from tests.editors.test_neovim_pictures import LOOK
from tests.editors.test_vscode_install import INSTALLING_S
from tests.editors.vscode.test_vscode import BASKET, HALF_LINE

LINES = 20


@pytest.fixture
def neovim(project: Path, monkeypatch: pytest.MonkeyPatch) -> Neovim:
    """Without the private network, since it needs the package index, and without a server on PATH."""
    require("nvim")
    require("tmux")
    home = project / "home"
    home.mkdir()
    share_package_index(home)
    init = project / "init.lua"
    init.write_text(
        f"{LOOK}vim.opt.runtimepath:prepend('{PLUGIN}')\n"
        "vim.env.PATH = '/usr/local/bin:/usr/bin:/bin'\n"
        "vim.cmd.runtime('plugin/infill.lua')\n"
        "require('infill').setup({ settings = { deadlineMs = { automatic = 60000 } } })\n"
    )
    file = home / "basket.py"
    file.write_text(BASKET)
    monkeypatch.setenv("INFILL_LS_RUNTIME_DIR", str(project / "run"))
    (project / "run").mkdir(mode=0o700)
    return Neovim(home, init, file, visible=True, size=(NARROW, LINES))


@pytest.mark.timeout(4 * INSTALLING_S)
def test_the_installed_server_offers_a_model(neovim: Neovim, project: Path, picture: Picture) -> None:
    try:
        neovim.type(":Infill install<CR>")
        until(lambda: any("takes minutes" in told for told in neovim.said), "it says what it does")
        neovim.type(":Infill cancel<CR>")
        until(lambda: any("cancelled" in told for told in neovim.said), "the installation is cancelled")
        folder = Path(neovim.lua("return vim.fn.stdpath('data')")) / "infill-ls"
        assert not folder.exists()

        neovim.type(":Infill install<CR>")
        until(lambda: "bin/infill-ls is installed" in "".join(neovim.said), "it is installed", INSTALLING_S)
        assert os.access(folder / "bin" / "infill-ls", os.X_OK)
        bundled = neovim.attached().status()["pid"]
        until(lambda: neovim.rpc.api.get_mode()["mode"] == "c", "it offers a model", INSTALLING_S)
        neovim.terminal.shows("Download it")
        offered = neovim.terminal.colours
        leave_download(project / "home", "".join(neovim.terminal.screen))

        neovim.type("1<CR>")
        until(lambda: neovim.status().get("pid", bundled) != bundled, "another worker is started", INSTALLING_S)
        neovim.attached()
        neovim.type(f"{HALF_LINE[0]}GA.")
        [ghost] = until(lambda: neovim.shown(GHOSTS), "ghost text is shown")
        neovim.terminal.shows(f"self.{ghost.splitlines()[0][: NARROW // 3]}")
        screens = [("after :Infill install", offered), ("after 1 and Enter", neovim.terminal.colours)]
        assert "Download it" in picture("install", "Neovim", screens)
        neovim.type("<Tab>")
        until(lambda: neovim.text == BASKET.replace("not in self", f"not in self.{ghost}"), "it is taken")
    finally:
        neovim.close()

"""`make bundle`, and its installer in an empty home without a network: ghost text in real VS Code and real Neovim."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from huggingface_hub import constants
from playwright.sync_api import sync_playwright

from inference.models import model_store
from tests.editors.conftest import require
from tests.editors.neovim import Neovim
from tests.editors.places import EDITORS, ROOT, until
from tests.editors.test_vscode_install import await_server
from tests.editors.vscode.code_server import CodeServer, browser_in, new_home, why_missing
from tests.editors.vscode.private_network import PrivateNetwork
from tests.editors.vscode.test_vscode import BASKET, HALF_LINE, ghost_after_dot
from tests.editors.vscode.window import Window
from tests.not_tested import not_tested

MODEL = "qwen2.5-coder-0.5b" if model_store.find_model("qwen2.5-coder-0.5b") else "embedded"
SYSTEM_PATH = os.pathsep.join([str(Path(sys.base_prefix, "bin")), "/usr/local/bin", "/usr/bin", "/bin"])
INIT = """
vim.env.PATH = '/usr/bin:/bin'
vim.env.INFILL_LS_DEADLINE_MS_AUTOMATIC = '60000'
vim.env.INFILL_LS_RUNTIME_DIR = '{}'
vim.opt.runtimepath:prepend('{}')
vim.cmd.runtime('plugin/infill.lua')
require('infill').setup()
"""
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an unpacked bundle with the real model, if it is here, or the embedded one."""
    if reason := why_missing():
        not_tested(reason)
    made = tmp_path_factory.mktemp("it's a bundle")
    build = (sys.executable, EDITORS / "bundle" / "build.py", "--model", MODEL, "--to", made)
    subprocess.run(build, cwd=ROOT, env={**os.environ, "TORCH_INDEX": "", "HF_HOME": constants.HF_HOME}, check=True)
    [file] = made.glob("*.zip")
    with ZipFile(file) as archive:
        archive.extractall(made)
    return made / file.stem


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with new_home() as home:
        yield home


def installer(bundle: Path, home: Path, network: PrivateNetwork | None, *words: str, limit: int = 0) -> tuple[int, str]:
    """The exit status of the installer, and what it says. `limit`: of a file, in blocks of 512 bytes; 0: none."""
    command = ["sh", "-c", f'ulimit -f {limit or "unlimited"}; exec sh "$0" "$@"', str(bundle / "install.sh"), *words]
    environment = {"HOME": str(home), "PATH": SYSTEM_PATH, "LANG": "C.UTF-8"}
    environment["INFILL_LS_RUNTIME_DIR"] = str(home / "run")
    done = subprocess.run(
        network.command(*command) if network else command, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(bundle: Path, home: Path, network: PrivateNetwork | None) -> Path:
    status, said = installer(bundle, home, network)
    assert status == 0, said
    assert f"into {home / '.infill-ls'}" in said and " GB)" in said
    return home / ".infill-ls"


def test_a_bundle_names_the_licence_of_every_package(bundle: Path) -> None:
    lines = (bundle / "licences" / "LICENCES.txt").read_text().splitlines()
    wheels = list((bundle / "wheels").glob("*.whl"))
    assert len(lines) == len(wheels) + (MODEL != "embedded") and all(line.partition(": ")[2] for line in lines)


def test_neovim_has_ghost_text_from_the_bundles_server(
    installed: Path, home: Path, network: PrivateNetwork | None
) -> None:
    require("nvim")
    (home / "init.lua").write_text(INIT.format(home / "run", installed / "nvim"))
    (home / "basket.py").write_text(BASKET)
    neovim = Neovim(home, home / "init.lua", home / "basket.py", network=network)
    try:
        assert MODEL in neovim.attached().status()["model"]
        neovim.type(f"{HALF_LINE[0]}GA.")
        ghost = neovim.ghost()
        neovim.type("<Tab>")
        until(lambda: neovim.text == BASKET.replace("not in self", f"not in self.{ghost}"), "it is taken")
    finally:
        neovim.close()


def test_vs_code_has_ghost_text_and_an_update_leaves_it_alone(
    installed: Path, bundle: Path, home: Path, network: PrivateNetwork | None
) -> None:
    code_server = CodeServer(home, network, has_server=False)
    code_server.set(infill__model=None)
    [vsix] = installed.glob("*.vsix")
    code_server.install(vsix)
    with sync_playwright() as playwright:
        window = Window(browser_in(playwright, home, network), code_server.start(), home / "project")
        await_server(window)
        status, said = installer(bundle, home, network)
        assert status == 0 and "Restart your editors" in said, said
        assert {path.name for path in installed.glob("env-*")} == {"env-1", "env-2"}
        ghost = ghost_after_dot(window, "basket.py")
        window.press("Tab")
        assert window.saved() == BASKET.replace("not in self", f"not in self.{ghost}")
        status, said = installer(bundle, home, network, "--remove")
        assert status == 1 and "Close your editors" in said
        window.close()
        code_server.stop()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"python": "3.99"}, "this bundle is for Python 3.99"),
        ({"platform": "other"}, "this bundle is for other, and this is linux-"),
        ({"limit": 2_000}, "Make room, or choose another disk"),
        ({"environment_bytes": 10**18}, "Make room, or choose another disk"),
        ({"files": {"wheels/lost.whl": ""}}, "lost.whl: No such file or directory. Unpack the bundle again"),
        ({"files": {"install.py": "0" * 64}}, "install.py is damaged"),
        ({"files": {}}, "is not of this bundle. Unpack the bundle into an empty folder"),
        ({"name": "another"}, "Unpack the whole bundle"),
    ],
)
def test_a_failed_installation_leaves_nothing(bundle: Path, tmp_path: Path, change: dict[str, Any], says: str) -> None:
    broken = tmp_path / "bundle"
    shutil.copytree(bundle, broken, copy_function=os.link)
    (broken / "bundle.json").unlink()
    (broken / "bundle.json").write_text(json.dumps(json.loads((bundle / "bundle.json").read_text()) | change))
    status, said = installer(broken, tmp_path, None, limit=change.get("limit", 0))
    assert status == 1 and says in said, said
    assert not (tmp_path / ".infill-ls").exists()


def test_a_folder_is_touched_only_if_it_is_ours_and_free(bundle: Path, tmp_path: Path) -> None:
    mine = tmp_path / "what's mine"
    mine.mkdir()
    (mine / "file").write_text("kept")
    for words, says in {(): "holds other files", ("--remove",): "holds no installation"}.items():
        for folder, why in {mine: f"{mine} {says}", bundle: "unpacked bundle"}.items():
            status, said = installer(bundle, tmp_path, None, *words, "--folder", str(folder))
            assert status == 1 and why in said, said
    status, said = installer(bundle, tmp_path, None, "--folder", str(tmp_path / "my $HOME"))
    assert status == 1 and "has $ in its name" in said, said
    shutil.copy(bundle / "bundle.json", mine)
    fcntl.flock(os.open(mine, os.O_RDONLY), fcntl.LOCK_EX)
    for words in [(), ("--remove",)]:
        status, said = installer(bundle, tmp_path, None, *words, "--folder", str(mine))
        assert status == 1 and f"another installer is at work in {mine}" in said, said
    assert (mine / "file").exists() and (bundle / "wheels").is_dir()


def test_removed_nothing_of_the_installation_is_left(
    installed: Path, bundle: Path, home: Path, network: PrivateNetwork | None
) -> None:
    unused = [installed / "bin" / "infill-ls", "worker", "--model", "embedded"]
    subprocess.run(unused, env={"HOME": str(home), "INFILL_LS_RUNTIME_DIR": str(home / "run")}, check=True)
    status, said = installer(bundle, home, network)
    assert status == 0 and "Updates 0.1.0" in said, said
    assert [path.name for path in installed.glob("env-*")] == ["env-3"]
    (installed / "env-old").write_text("mine")
    status, said = installer(bundle, home, network, "--remove")
    assert status == 0 and [path.name for path in installed.iterdir()] == ["env-old"], said

"""`make bundle`, and its installer in an empty home without a network: ghost text in real VS Code and real Neovim."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
from playwright.sync_api import sync_playwright

from tests.editors.conftest import require
from tests.editors.neovim import Neovim
from tests.editors.places import EDITORS, ROOT, until
from tests.editors.test_vscode_install import BASKET, HALF_LINE, await_server
from tests.editors.vscode.code_server import CodeServer, browser_in, new_home, why_missing
from tests.editors.vscode.private_network import PrivateNetwork
from tests.editors.vscode.window import Window
from tests.not_tested import not_tested

SYSTEM_PATH = os.pathsep.join([str(Path(sys.base_prefix, "bin")), "/usr/local/bin", "/usr/bin", "/bin"])
INSTALL = "vim.opt.runtimepath:prepend('{}')\nvim.cmd.runtime('plugin/infill.lua')\nrequire('infill').setup()\n"
OPTIONS = "vim.env.PATH = '/usr/bin:/bin'\nvim.env.INFILL_LS_DEADLINE_MS_AUTOMATIC = '60000'\n"
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an unpacked bundle with the embedded model."""
    if reason := why_missing():
        not_tested(reason)
    made = tmp_path_factory.mktemp("bundle")
    build = (sys.executable, EDITORS / "bundle" / "build.py", "--model", "embedded", "--to", made)
    subprocess.run(build, cwd=ROOT, env={**os.environ, "TORCH_INDEX": ""}, check=True)
    [file] = made.glob("*.zip")
    with ZipFile(file) as archive:
        archive.extractall(made)
    return made / file.stem


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with new_home() as home:
        yield home


def installer(bundle: Path, home: Path, network: PrivateNetwork | None, *words: str) -> tuple[int, str]:
    """The exit status of the installer, and what it says."""
    command = ["sh", str(bundle / "install.sh"), *words]
    environment = {"HOME": str(home), "PATH": SYSTEM_PATH, "LANG": "C.UTF-8"}
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


def test_a_bundle_names_what_it_holds_and_every_licence(bundle: Path) -> None:
    about = json.loads((bundle / "bundle.json").read_text())
    assert {about["platform"], f"python{about['python']}"} <= set(bundle.name.split("-", 3)[2:][0:1] + bundle.name.split("-")) | {
        about["platform"]
    }
    licences = (bundle / "licences" / "LICENCES.txt").read_text().splitlines()
    assert len(licences) == len(list((bundle / "wheels").glob("*.whl")))
    assert not [line for line in licences if line.endswith("see its text") and "sympy" in line]


def test_neovim_has_ghost_text_from_the_bundles_server(
    installed: Path, home: Path, network: PrivateNetwork | None
) -> None:
    require("nvim")
    (home / "init.lua").write_text(OPTIONS + INSTALL.format(installed / "nvim"))
    (home / "basket.py").write_text(BASKET)
    neovim = Neovim(home, home / "init.lua", home / "basket.py", network=network)
    try:
        neovim.attached().type(f"{HALF_LINE[0]}GA.")
        ghost = neovim.ghost()
        neovim.type("<Tab>")
        until(lambda: neovim.text == BASKET.replace("not in self", f"not in self.{ghost}"), "it is taken")
    finally:
        neovim.close()


def test_vs_code_has_ghost_text_and_an_update_leaves_it_alone(
    installed: Path, bundle: Path, home: Path, network: PrivateNetwork | None
) -> None:
    code_server = CodeServer(home, network, has_server=False)
    [vsix] = installed.glob("*.vsix")
    code_server.install(vsix)
    with sync_playwright() as playwright:
        window = Window(browser_in(playwright, home, network), code_server.start(), home / "project")
        await_server(window)
        status, said = installer(bundle, home, network)
        assert status == 0 and "is still used" in said, said
        assert {path.name for path in installed.glob("env-*")} == {"env-1", "env-2"}
        window.open("basket.py", BASKET)
        window.go_to(*HALF_LINE)
        window.type(".")
        ghost = window.await_ghost()
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
        ({"environment_bytes": 10**18}, "Free some, or choose another place"),
        ({"files": {"wheels/lost.whl": ""}}, "lost.whl: No such file or directory. Unpack the bundle again"),
        ({"files": {"install.py": "0" * 64}}, "install.py is damaged"),
        ({"name": "another"}, "unpack the whole bundle"),
    ],
)
def test_what_cannot_be_installed_leaves_nothing(
    bundle: Path, tmp_path: Path, change: dict[str, object], says: str
) -> None:
    broken = tmp_path / "bundle"
    broken.mkdir()
    for path in bundle.iterdir():
        (broken / path.name).symlink_to(path)
    for name in ("install.py", "bundle.json"):
        (broken / name).unlink()
    (broken / "install.py").write_text((bundle / "install.py").read_text())
    (broken / "bundle.json").write_text(json.dumps(json.loads((bundle / "bundle.json").read_text()) | change))
    status, said = installer(broken, tmp_path, None)
    assert status == 1 and says in said, said
    assert not (tmp_path / ".infill-ls").exists()


def test_a_folder_with_other_files_is_left_alone(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    for words, says in {(): "holds other files", ("--remove",): "is not installed"}.items():
        status, said = installer(bundle, tmp_path, None, *words, "--folder", str(tmp_path))
        assert status == 1 and says in said, said
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_removed_nothing_of_the_installation_is_left(
    installed: Path, bundle: Path, home: Path, network: PrivateNetwork | None
) -> None:
    subprocess.run([installed / "bin" / "infill-ls", "worker", "--stop", "--force"], env={"HOME": str(home)}, check=False)
    status, said = installer(bundle, home, network)
    assert status == 0 and "Updates 0.1.0" in said, said
    assert [path.name for path in installed.glob("env-*")] == ["env-3"]
    status, said = installer(bundle, home, network, "--remove")
    assert status == 0 and not installed.exists(), said

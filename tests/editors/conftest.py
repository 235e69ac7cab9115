"""The editors under test. If one is missing from this machine, its tests are skipped with a loud warning."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.editors.neovim import PLUGIN, Neovim
from tests.editors.partner import Partner
from tests.editors.pictures import Picture, painter
from tests.editors.places import program
from tests.editors.vscode import private_network
from tests.editors.vscode.private_network import PrivateNetwork
from tests.not_tested import not_tested, pytest_terminal_summary  # noqa: F401 (a hook)

SETUP = """
vim.opt.runtimepath:prepend({plugin!r})
vim.cmd.runtime('plugin/infill.lua')
require('infill').setup({{ settings = {{
  deadlineMs = {{ automatic = 60000, invoked = 60000 }}, idleSeconds = 60, model = "embedded",
}} }})
"""
StartNeovim = Callable[..., Neovim]


def require(*names: str) -> None:
    for name in names:
        if program(name) is None:
            not_tested(f"{name}, which is not installed here (tests/editors/install.sh says why when it runs)")


@pytest.fixture(scope="session")
def network() -> Iterator[PrivateNetwork | None]:
    """The network that editors, servers and workers run in, from which nothing leaves; None where there can be none."""
    if private_network.why_impossible():
        yield None
        return
    with TemporaryDirectory(prefix="ile-", dir="/tmp") as folder:
        network = PrivateNetwork(Path(folder) / "attempts")
        yield network
        network.close()


@pytest.fixture
def project() -> Iterator[Path]:
    """A folder for an editor's home and the files that it opens; its path is short, for there are sockets in it."""
    with TemporaryDirectory(prefix="ile-", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture
def picture(tmp_path: Path) -> Picture:
    return painter(tmp_path)


@pytest.fixture
def plugin_init(project: Path) -> Path:
    init = project / "init.lua"
    init.write_text(SETUP.format(plugin=os.fspath(PLUGIN)))
    return init


@pytest.fixture
def partner(project: Path, network: PrivateNetwork | None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Partner]:
    """The partner of the editors of a test: it writes what the test wants it to, when the test wants it to."""
    partner = Partner(project / "partner", network)
    for name, value in {"URL": partner.url, "KIND": "chat"}.items():
        monkeypatch.setenv(f"INFILL_LS_PARTNER_{name}", value)
    for name in ("AUTOMATIC", "INVOKED"):
        monkeypatch.setenv(f"INFILL_LS_DEADLINE_MS_{name}", "60000")
    yield partner
    partner.end()


@pytest.fixture
def model(partner: Partner, monkeypatch: pytest.MonkeyPatch) -> Partner:
    """The partner as their only model."""
    monkeypatch.setenv("INFILL_LS_MODEL", "partner")
    return partner


@pytest.fixture
def start_neovim(project: Path, network: PrivateNetwork | None) -> Iterator[StartNeovim]:
    require("nvim")
    started: list[Neovim] = []

    def start(text: str, init: Path, name: str = "main.py", **options: Any) -> Neovim:
        home = project / str(len(started))
        home.mkdir()
        file = home / name
        file.write_text(text)
        started.append(Neovim(home, init, file, network=network, **options))
        return started[-1]

    yield start
    for neovim in started:
        neovim.close()


def assert_only_holes_changed(before: str, after: str) -> None:
    pinned = [re.escape(part) for part in before.split("???")]
    assert re.fullmatch("(.+)".join(pinned), after, re.DOTALL), after
    assert "???" not in after

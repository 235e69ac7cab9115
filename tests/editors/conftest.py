"""The editors that the tests drive. One that is not on this machine has its tests skipped, and that is said loudly."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.editors.neovim import PLUGIN, Neovim
from tests.editors.places import program

_missing: set[str] = set()
SETUP = """
vim.opt.runtimepath:prepend({plugin!r})
vim.cmd.runtime('plugin/infill.lua')
require('infill').setup({{ settings = {{
  deadlineMs = {{ automatic = 60000, invoked = 60000 }}, idleSeconds = 60,
}} }})
"""
StartNeovim = Callable[..., Neovim]


def require(name: str) -> None:
    """Skips the test where an editor is missing."""
    if program(name) is None:
        _missing.add(name)
        pytest.skip(f"{name} IS NOT INSTALLED: nothing of it is tested here; see tests/editors/install.sh")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """At the end, and not to be overlooked: what has not been tested."""
    for name in sorted(_missing):
        terminalreporter.write_line(f"NOT TESTED: {name}, which is not installed here", red=True, bold=True)


@pytest.fixture
def project() -> Iterator[Path]:
    """A folder for an editor's home and the files that it opens; its path is short, for there are sockets in it."""
    with TemporaryDirectory(prefix="ile-", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture
def plugin_init(project: Path) -> Path:
    """An init.lua that uses the plugin, with settings for a busy machine."""
    init = project / "init.lua"
    init.write_text(SETUP.format(plugin=os.fspath(PLUGIN)))
    return init


@pytest.fixture
def start_neovim(project: Path) -> Iterator[StartNeovim]:
    """Starts Neovims on files of their own; they are quit after the test."""
    require("nvim")
    started: list[Neovim] = []

    def start(text: str, init: Path, name: str = "main.py") -> Neovim:
        home = project / str(len(started))
        home.mkdir()
        file = home / name
        file.write_text(text)
        started.append(Neovim(home, init, file))
        return started[-1]

    yield start
    for neovim in started:
        neovim.close()

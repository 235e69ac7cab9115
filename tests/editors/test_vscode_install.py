"""From an empty home to ghost text in real VS Code: the extension installs the server that it holds, and a model.

Not beside the other tests of VS Code: this one needs the package index, and they have no network.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, sync_playwright

from tests.editors.conftest import not_tested
from tests.editors.places import leave_download, share_package_index, until
from tests.editors.vscode import pictures
from tests.editors.vscode.code_server import SERVER, CodeServer, browser_in, new_home, why_missing
from tests.editors.vscode.test_vscode import BASKET, ghost_after_dot
from tests.editors.vscode.window import Window

INSTALLING_S = 900
TOAST = ".notifications-toasts .notification-list-item"
pytestmark = pytest.mark.timeout(3 * INSTALLING_S)


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    if reason := why_missing():
        not_tested(reason)
    with new_home() as home:
        share_package_index(home)
        yield home
        for log in sorted(home.glob("user/logs/*/exthost*/infill-ls.infill/*.log")):
            print(f"{log.name}:", log.read_text(), sep="\n")  # if a test fails, it is shown


@pytest.fixture(scope="module")
def browser(home: Path) -> Iterator[BrowserContext]:
    with sync_playwright() as playwright:
        context = browser_in(playwright, home, None)
        yield context
        context.close()


def started(home: Path, browser: BrowserContext, code_server: CodeServer) -> Window:
    address = code_server.start()
    window = Window(browser, address, home / "project")
    window.page.set_default_timeout(1_000 * INSTALLING_S)
    return window


def installed(home: Path) -> list[Path]:
    """The folders of servers that the extension has installed, whole."""
    folders = (home / "user" / "User" / "globalStorage" / "infill-ls.infill").glob("server-*")
    return [folder for folder in folders if (folder / "complete").exists()]


def button(title: str) -> str:
    return f'{TOAST} .monaco-button:has-text("{title}")'


def await_server(window: Window) -> None:
    window.page.wait_for_selector('[id="infill-ls.infill.infill.status"] .codicon-sparkle')


def test_buttons_install_the_server_and_a_model(home: Path, browser: BrowserContext) -> None:
    code_server = CodeServer(home, has_server=False)
    code_server.set(infill__model=None)
    code_server.install()
    window = started(home, browser, code_server)
    window.page.click(button("Install It"))
    window.page.click(button("Cancel"))
    until(lambda: not list((home / "user").rglob("server-*")), "nothing is left of a cancelled installation")

    window.run("Infill: Restart")
    window.page.wait_for_selector(button("Install It"))
    pictures.take_notification(window, "install-server")
    window.page.click(button("Install It"))
    await_server(window)
    window.page.wait_for_selector(button("Download It"))
    pictures.take_notification(window, "install-model")
    leave_download(home, window.page.inner_text(f'{TOAST}:has-text("Download It")'))
    window.page.click(button("Download It"))
    window.page.wait_for_selector(f'{TOAST}:has-text("is installed and now in use")')
    ghost = ghost_after_dot(window, "basket.py")
    window.press("Tab")
    assert window.saved() == BASKET.replace("not in self", f"not in self.{ghost}")
    [new] = installed(home)
    window.close()
    code_server.stop()

    earlier = new.with_name("server-000000000000")
    (earlier / "env" / "bin").mkdir(parents=True)
    for program in (SERVER, SERVER.with_name("python")):
        (earlier / "env" / "bin" / program.name).symlink_to(program)
    (earlier / "complete").touch()
    shutil.rmtree(new)
    window = started(home, browser, code_server)
    until(lambda: new in installed(home), "the server is updated", INSTALLING_S)
    await_server(window)
    window.close()
    code_server.stop()

    used = earlier / f"used-by-{os.getpid()}"
    used.touch()
    window = started(home, browser, code_server)
    await_server(window)
    assert set(installed(home)) == {earlier, new}, "another window runs the earlier server"
    window.close()
    code_server.stop()

    used.unlink()
    window = started(home, browser, code_server)
    await_server(window)
    until(lambda: installed(home) == [new], "the earlier server is gone")
    assert not (home / ".local").exists()
    code_server.stop()

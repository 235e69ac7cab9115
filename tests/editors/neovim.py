"""A real headless Neovim, driven over its own socket."""

import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pynvim

from tests.editors.places import EDITORS, environment, program, until
from tests.editors.terminal import Terminal
from tests.editors.vscode.private_network import PrivateNetwork

PLUGIN = EDITORS / "nvim"
SNIPPET = PLUGIN / "minimal.lua"
LINE = "def add(a, b):\n    return \n"
HOLES = "def area(width, height):\n    return ???\n\n\ndef half(number):\n    result = ???\n    return result\n"
GHOSTS = "nvim.lsp.inline_completion"
DRAFTS = "infill.drafts"
_LUA = Path(__file__).with_suffix(".lua").read_text(encoding="utf-8")
_DEBOUNCE_S = 0.4
"""Neovim waits 0.2 s for the next key before it asks."""


class Neovim:
    def __init__(
        self,
        folder: Path,
        init: Path,
        *files: Path,
        size: tuple[int, int] = (100, 30),
        network: PrivateNetwork | None = None,
        visible: bool = False,
    ) -> None:
        """`folder` is the home of its user. A `visible` one draws in a terminal, which can be looked at."""
        self._folder = folder
        socket = folder / "nvim.sock"
        width, height = size
        words = [program("nvim") or "nvim", "--listen", str(socket), "-u", str(init), "-i", "NONE", "-n"]
        words += [] if visible else ["--headless", "--cmd", f"set columns={width} lines={height}"]
        words += map(str, files)
        self._terminal = Terminal(folder, *words, size=size, network=network) if visible else None
        self._process = None if visible else _started(network.command(*words) if network else words, folder)
        self.rpc = until(lambda: _listening(socket), "Neovim listens")
        self.lua(_LUA)

    @property
    def terminal(self) -> Terminal:
        assert self._terminal is not None
        return self._terminal

    def lua(self, code: str, *arguments: Any) -> Any:
        return self.rpc.exec_lua(code, *arguments)

    def type(self, keys: str) -> None:
        self.rpc.input(keys)

    @property
    def text(self) -> str:
        return "\n".join(self.rpc.current.buffer[:]) + "\n"

    @property
    def said(self) -> list[str]:
        return list(self.lua("return said"))

    @property
    def messages(self) -> str:
        return str(self.rpc.command_output("messages"))

    def recorded(self, what: str) -> list[Any]:
        """What has happened since it started: `requests`, `sent`, `drafts` or `states`."""
        return list(self.lua(f"return {what}"))

    @property
    def screen(self) -> list[str]:
        return list(self.lua("return screen_rows()"))

    def shown(self, namespace: str, buffer: int = 0) -> list[str]:
        return list(self.lua("return shown_marks(...)", namespace, buffer))

    def ghost(self) -> str:
        """The suggestion that is shown, waited for. Where the small model has none, it is asked again."""

        def look() -> list[str]:
            before = self.recorded("requests")
            if not (shown := self.shown(GHOSTS)) and before and _answered(before):
                time.sleep(_DEBOUNCE_S)
                if self.recorded("requests") == before and not (shown := self.shown(GHOSTS)):
                    self.type("<Esc>a")
            return shown

        try:
            return until(look, "a suggestion appears")[0]
        except AssertionError as error:
            raise AssertionError(f"{error}; {self._state()}") from None

    def attached(self) -> "Neovim":
        until(lambda: self.status().get("state") in ("ready", "busy"), "the model is ready")
        return self

    def status(self) -> dict[str, Any]:
        """What the server says of itself; empty while there is none."""
        return dict(self.lua("return server_status()") or {})

    def _state(self) -> str:
        known = {name: self.recorded(name) for name in ("requests", "states", "said")}
        logs = [log.read_text()[-2000:] for log in self._folder.glob("state/nvim/lsp.log")]
        return f"mode {self.rpc.api.get_mode()}, {known}, messages {self.messages!r}, text {self.text!r}, logs {logs}"

    def close(self) -> None:
        with suppress(OSError, EOFError):
            self.rpc.command("qall!", async_=True)
        self.rpc.close()
        if self._terminal is not None:
            self._terminal.close()
        if self._process is not None:
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _started(words: list[str], folder: Path) -> "subprocess.Popen[bytes]":
    with (folder / "nvim.out").open("w") as log:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
        return subprocess.Popen(words, cwd=folder, env=environment(folder), **pipes)


def _answered(requests: list[str]) -> bool:
    asked, done = (requests.count(f"{kind} textDocument/inlineCompletion") for kind in ("pending", "complete"))
    return asked == done > 0


def _listening(socket: Path) -> pynvim.Nvim | None:
    """The connection; None while the socket is not there, or is but does not listen yet."""
    with suppress(FileNotFoundError, ConnectionRefusedError):
        return pynvim.attach("socket", path=str(socket))
    return None

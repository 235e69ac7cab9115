"""A program in a real terminal (tmux), driven by keys and read from its screen."""

import subprocess
from pathlib import Path

from tests.editors.places import environment, program, until
from tests.editors.vscode.private_network import PrivateNetwork


class Terminal:
    """Runs `words` in `folder`, which is also the home of its user. Each has a tmux server of its own."""

    def __init__(
        self, folder: Path, *words: str, size: tuple[int, int] = (100, 30), network: PrivateNetwork | None = None
    ) -> None:
        self._tmux = [program("tmux") or "tmux", "-S", str(folder / "tmux.sock"), "-f", "/dev/null"]
        self._environment = environment(folder) | {"COLORTERM": "truecolor"}
        width, height = map(str, size)
        begin = ["set", "-s", "escape-time", "0", ";", "set", "-g", "status", "off", ";"]
        begin += ["set", "-s", "default-terminal", "tmux-256color", ";"]
        self._command(
            *(network.command(*self._tmux) if network else self._tmux),
            *[*begin, "new-session", "-d", "-x", width, "-y", height, "-c", str(folder), "--", *words],
        )

    def press(self, *keys: str) -> None:
        for key in keys:  # a program that reads Escape together with the next key takes both for Alt and that key
            self._command(*self._tmux, "send-keys", *[key] * (2 if key == "Escape" else 1))

    def type(self, text: str) -> None:
        self._command(*self._tmux, "send-keys", "-l", text)

    @property
    def screen(self) -> list[str]:
        return self._command(*self._tmux, "capture-pane", "-p").splitlines()

    @property
    def colours(self) -> str:
        return self._command(*self._tmux, "capture-pane", "-p", "-e")

    def is_on_screen(self, text: str) -> bool:
        return any(text in row for row in self.screen)

    def shows(self, text: str) -> None:
        """Wait until a row contains `text`."""
        until(lambda: self.is_on_screen(text), f"{text!r} is on the screen")

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False, env=self._environment, capture_output=True)

    def _command(self, *words: str) -> str:
        done = subprocess.run(words, env=self._environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout

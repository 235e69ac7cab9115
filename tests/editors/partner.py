"""The partner of an editor under test: `tests.partner_server` in that editor's network, told by files what to do.

Run as a program it serves: python -m tests.editors.partner FOLDER. In FOLDER are `answer` (what it writes into a hole),
`lines` (of which it rather completes the one that was begun, a random while later), `held` (while it is there, nobody
is answered), `url` and `asked`.
"""

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from tests.editors.places import ROOT, until
from tests.editors.vscode.private_network import PrivateNetwork
from tests.partner_server import Asked, PartnerServer, partner_server

NAME = "thinker"
_TOLD = ("kind", "prefix", "suffix", "draft")
_TICK_S = 0.02
_SLOW_S = 1.5
"""The longest that a slow one takes."""


class Partner:
    """A partner that runs in `network`. It writes `answer` into every hole until it is told something else."""

    def __init__(self, folder: Path, network: PrivateNetwork | None) -> None:
        self._folder, self._network = folder, network
        folder.mkdir()
        self.answers("")
        self._process = self._start()
        self.url = until(lambda: _text(folder / "url"), "the partner serves")

    def answers(self, text: str) -> None:
        new = self._folder / "answer.new"
        new.write_text(text)
        new.replace(self._folder / "answer")

    def completes(self, lines: Sequence[str]) -> None:
        """From now on it completes the first of these lines that agrees with what is typed, and is slow."""
        (self._folder / "lines").write_text("\n".join(lines))

    @contextmanager
    def held(self) -> Iterator[None]:
        (self._folder / "held").touch()
        try:
            yield
        finally:
            (self._folder / "held").unlink()

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The requests so far; of the last one a part may be written yet."""
        lines = _text(self._folder / "asked").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def until_asked(self) -> dict[str, Any]:
        return until(lambda: self.asked, "the partner is asked")[0]

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def _start(self) -> "subprocess.Popen[bytes]":
        words = [sys.executable, "-m", "tests.editors.partner", str(self._folder)]
        return subprocess.Popen(self._network.command(*words) if self._network else words, cwd=ROOT)


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


class _Release(asyncio.Event):
    """Set while a file is not there, and before anybody has had a hole to fill: what it can do, it says at once.

    Each fill that is asked for is in `asked` before it is answered.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._written = 0
        self.server: PartnerServer | None = None

    async def wait(self) -> Literal[True]:
        fills = self.server.fills if self.server else []
        with (self._folder / "asked").open("a") as log:
            for asked in fills[self._written :]:
                log.write(json.dumps({name: getattr(asked, name) for name in _TOLD}) + "\n")
        self._written = len(fills)
        if (self._folder / "lines").exists():
            await asyncio.sleep(random.uniform(0, _SLOW_S))
        while (self._folder / "held").exists() and fills:
            await asyncio.sleep(_TICK_S)
        return True


async def _serve(folder: Path) -> None:
    def answer(asked: Asked) -> str:
        begun = asked.prefix.rpartition("\n")[2].lstrip()
        fits = (line for line in _text(folder / "lines").splitlines() if line.startswith(begun) and line != begun)
        return next(fits, begun + (folder / "answer").read_text()).removeprefix(begun)

    hold = _Release(folder)
    async with partner_server(answer=answer, name=NAME, kinds=("chat",), hold=hold) as server:
        hold.server = server
        new = folder / "url.new"
        new.write_text(server.url)
        new.replace(folder / "url")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))

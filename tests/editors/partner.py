"""The partner of an editor under test: `tests.partner_server` in that editor's network, told by files what to do.

Run as a program it serves: python -m tests.editors.partner FOLDER. In FOLDER are `answer` (what it writes into a hole),
`held` (while it is there, nobody is answered), `breaks` (it ends in the middle of its next answer), `url` and `asked`.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.editors.places import ROOT, until
from tests.editors.vscode.private_network import PrivateNetwork
from tests.partner_server import Asked, PartnerServer, partner_server

NAME = "thinker"
_TOLD = ("kind", "prefix", "suffix", "draft")
_TICK_S = 0.02
_BREAKS_AFTER_S = 0.3
"""By then the first token has gone out. If not, the server went away even earlier, which is just as hard."""


class Partner:
    """A partner that runs in `network`. It writes `answer` into every hole until it is told something else."""

    def __init__(self, folder: Path, network: PrivateNetwork | None) -> None:
        self._folder, self._network = folder, network
        folder.mkdir()
        self.answers("")
        self._process = self._start()
        self.url = until(lambda: _text(folder / "url"), "the partner serves")

    def answers(self, text: str) -> None:
        """From now on it writes `text`."""
        new = self._folder / "answer.new"
        new.write_text(text)
        new.replace(self._folder / "answer")

    def hold(self) -> None:
        """From now on nobody is answered."""
        (self._folder / "held").touch()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody is answered meanwhile."""
        self.hold()
        try:
            yield
        finally:
            (self._folder / "held").unlink()

    @property
    def asked(self) -> list[dict[str, Any]]:
        """What it was asked to fill: `kind`, `prefix`, `suffix` and `draft`."""
        return [json.loads(line) for line in _text(self._folder / "asked").splitlines()]

    def until_asked(self, already: int) -> dict[str, Any]:
        """Its newest request, as soon as there are more than `already`."""
        return until(lambda: self.asked[already:], "the partner is asked")[-1]

    def breaks(self) -> None:
        """It ends in the middle of its next answer."""
        (self._folder / "breaks").touch()

    def end(self) -> None:
        """It is gone: nobody listens there."""
        self._process.kill()
        self._process.wait()

    def _start(self) -> "subprocess.Popen[bytes]":
        words = [sys.executable, "-m", "tests.editors.partner", str(self._folder)]
        return subprocess.Popen(self._network.command(*words) if self._network else words, cwd=ROOT)


@contextmanager
def partner_of_environment(folder: Path, network: PrivateNetwork | None) -> Iterator[Partner]:
    """A partner that editors started meanwhile find set, and that writes nothing yet."""
    partner = Partner(folder, network)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("INFILL_LS_PARTNER_URL", partner.url)
            patch.setenv("INFILL_LS_PARTNER_KIND", "chat")
            patch.setenv("INFILL_LS_DEADLINE_MS_INVOKED", "60000")
            yield partner
    finally:
        partner.end()


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


class _Release(asyncio.Event):
    """Set while a file is not there, and before anybody has had a hole to fill: what it can do, it says at once."""

    def __init__(self, mark: Path) -> None:
        super().__init__()
        self._mark = mark
        self.server: PartnerServer | None = None

    async def wait(self) -> Literal[True]:
        while self._mark.exists() and self.server and self.server.fills:
            await asyncio.sleep(_TICK_S)
        return True


async def _serve(folder: Path) -> None:
    def answer(asked: Asked) -> str:
        if (folder / "breaks").exists():
            asyncio.get_running_loop().call_later(_BREAKS_AFTER_S, os.kill, os.getpid(), signal.SIGKILL)
            server.pause_s = 3600
        return (folder / "answer").read_text()

    hold = _Release(folder / "held")
    async with partner_server(answer=answer, name=NAME, kinds=("chat",), hold=hold) as server:
        hold.server = server
        new = folder / "url.new"
        new.write_text(server.url)
        new.replace(folder / "url")
        written = 0
        while True:
            lines = [json.dumps({name: getattr(asked, name) for name in _TOLD}) for asked in server.fills[written:]]
            with (folder / "asked").open("a") as log:
                log.writelines(f"{line}\n" for line in lines)
            written += len(lines)
            await asyncio.sleep(_TICK_S)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))

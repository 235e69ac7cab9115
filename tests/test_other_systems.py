"""What other systems do differently, as far as Linux can play them, and a list of every such place."""

import re
import signal
import sys
from pathlib import Path

from inference.messages import Done
from tests.e2e.conftest import PATIENT
from tests.e2e.raw_client import RawClient
from tests.workers import StartWorker, fill, is_idle

ROOT = Path(__file__).parents[1]
_ASKS_FOR_THE_SYSTEM = re.compile(
    r"os\.name|sys\.platform|hasattr\(os,|getattr\((os|subprocess|signal|socket),"
    r"|(except |suppress\()NotImplementedError|# Windows"
)
MODULE = "tests.as_on_windows"


def test_each_place_that_depends_on_the_system_is_listed() -> None:
    files = [file for package in ("inference", "lsp_server") for file in (ROOT / package).rglob("*.py")]
    found = {str(file.relative_to(ROOT)) for file in files if _ASKS_FOR_THE_SYSTEM.search(file.read_text("utf-8"))}
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## What depends on the system")[1].split("\n## ")[0]
    assert found == set(re.findall(r"`((?:inference|lsp_server)/[\w/]+\.py)`", section))


async def test_a_worker_serves_over_tcp_and_ends_on_a_signal(start_worker: StartWorker) -> None:
    worker = start_worker("--transport", "tcp", module=MODULE, AS_ON_WINDOWS="inference.worker")
    client = await worker.connect()
    client.send(fill("r"))
    assert isinstance(await client.final("r"), Done)
    await client.becomes(is_idle)
    assert worker.paths.socket.is_file(), "it holds a port and a token"
    client.close()
    worker.popen.send_signal(signal.SIGTERM)
    assert await worker.exit_status() == 0


async def test_a_server_finds_a_worker_over_tcp(tmp_path: Path) -> None:
    words = [sys.executable, "-m", MODULE, "serve", "--model", "embedded"]
    client = await RawClient.start(tmp_path, PATIENT, command=words, AS_ON_WINDOWS="lsp_server.cli")
    client.open("file:///c%3A/Users/me/a.py", "def add(a, b):\r\n    return \r\n")
    client.complete(1, "file:///c%3A/Users/me/a.py", 1, 11, invoked=True)
    assert "result" in await client.reply(1)
    client.process.kill()  # as Windows ends a process
    await client.process.wait()

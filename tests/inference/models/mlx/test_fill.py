"""`--device mlx` as a user runs it: the real command, and one real worker for all tests here."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from inference.messages import Cancel, Candidate, Done, Draft, Hole, InfillRequest, Outcome, Status, Text
from lsp_server.worker import WorkerOptions
from lsp_server.worker.paths import WorkerPaths, paths_of
from tests.workers import RawClient, long_fill

SOURCE = "import os\n\n\ndef size(path):\n    return ???\n\n\nprint(size(???))\n"


def run(runtime_folder: Path, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """A command of infill-ls."""
    command = [sys.executable, "-m", "lsp_server.cli", *map(str, arguments)]
    environment = os.environ | {"INFILL_LS_RUNTIME_DIR": str(runtime_folder)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def answer(runtime_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What `infill-ls fill --device mlx` prints for a file with two holes. Its worker stays."""
    file = tmp_path_factory.mktemp("source") / "sized.py"
    file.write_text(SOURCE)
    options = ("--device", "mlx", "--json", "--steps", 4, "--seed", 1, "--deadline-ms", 250_000)
    done = run(runtime_folder, "fill", file, *options)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def worker(answer: dict[str, object]) -> WorkerPaths:
    return paths_of(WorkerOptions(device="mlx"))


def test_the_command_fills_holes_jointly_and_names_the_device(answer: dict[str, object]) -> None:
    assert answer["device"] == "mlx:cpu"
    pattern = re.escape(SOURCE).replace(re.escape("???"), "(.+)")
    assert re.fullmatch(pattern, str(answer["result"]))


async def test_status_names_the_device(worker: WorkerPaths) -> None:
    client = await RawClient.open(worker)
    status = await client.status()
    assert (status.device, status.dtype) == ("mlx:cpu", "float32")
    client.close()


def test_doctor_names_the_device_and_what_fits(runtime_folder: Path) -> None:
    done = run(runtime_folder, "doctor", "--device", "mlx")
    assert "mlx:cpu (MLX on this CPU" in done.stdout
    assert "float32: needs" in done.stdout


async def test_a_rework_sends_drafts_and_keeps_all_else(worker: WorkerPaths) -> None:
    client = await RawClient.open(worker)
    segments = (Text("def f(a, b):\n    return "), Hole(text="a + b", strength=0.5), Text("\n"))
    client.send(InfillRequest("rework", segments, max_steps=3, drafts=True))
    messages = []
    while not isinstance(message := await client.receive(), Done):
        if not isinstance(message, Status):
            messages.append(message)
    assert any(isinstance(one, Draft) for one in messages)
    assert isinstance(messages[-1], Candidate)
    client.close()


async def test_a_cancel_stops_it_and_is_answered_once(worker: WorkerPaths) -> None:
    client = await RawClient.open(worker)
    client.send(long_fill("a", candidates=1))
    await client.first_draft()
    client.send(Cancel("a"))
    reply = await client.final("a")
    assert isinstance(reply, Done)
    assert reply.outcome is Outcome.CANCELLED
    client.close()


async def test_at_the_deadline_the_best_so_far_is_sent(worker: WorkerPaths) -> None:
    client = await RawClient.open(worker)
    client.send(long_fill("a", candidates=1, deadline_ms=1500, drafts=False))
    reply = await client.final("a")
    assert isinstance(reply, Done)
    assert reply.outcome is Outcome.DEADLINE
    client.close()

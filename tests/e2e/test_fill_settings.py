"""`infill-ls fill` obeys privacy and settings as the server does: flags over the environment over infill-ls.toml."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from inference.messages import Hole, InfillRequest
from lsp_server.settings.schema import Settings
from lsp_server.worker import WorkerOptions
from lsp_server.worker.paths import WorkerPaths, paths_of
from tests.e2e.relay import Relay, relay_to
from tests.workers import Finished, infill_ls

CODE = "a = <one>\nb = <two>\nc = <three>\nd = ???\n"
SECRET = "files like this one may hold secrets and are never read"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "main.py").write_text(CODE)
    return tmp_path


@pytest_asyncio.fixture(loop_scope="session")
async def relay(resident: WorkerPaths) -> AsyncIterator[Relay]:
    async with relay_to(resident.socket) as relay:
        yield relay


async def fill(relay: Relay, file: Path, *arguments: str, **environment: str) -> Finished:
    """The requests of the relay are those of the command, of which a second one asks for more where nothing fits."""
    relay.requests.clear()
    return await asyncio.to_thread(infill_ls, "fill", "--seed", 1, file, *arguments, folder=relay.folder, **environment)


def write_settings(project: Path, text: str) -> None:
    (project / "infill-ls.toml").write_text(text)


def hole_texts(request: InfillRequest) -> list[str]:
    return [part.text for part in request.segments if isinstance(part, Hole)]


async def test_without_settings_it_waits_longer_than_the_server(relay: Relay, project: Path) -> None:
    settings = Settings()
    await fill(relay, project / "main.py")
    request = relay.requests[0]
    assert request.candidates == settings.candidates.invoked
    assert 60_000 < request.deadline_ms <= 120_000
    assert (request.max_steps, request.language, request.path) == (settings.max_steps, "python", "main.py")
    assert hole_texts(request) == ["???"]


async def test_settings_file_then_environment_then_command_line(relay: Relay, project: Path) -> None:
    write_settings(
        project, 'maxSteps = 3\nmarker = "<one>"\ncandidates = { invoked = 4 }\ndeadlineMs = { invoked = 30_000 }'
    )
    variables = {"MAX_STEPS": "2", "MARKER": "<two>", "CANDIDATES_INVOKED": "5", "DEADLINE_MS_INVOKED": "40000"}
    environment = {f"INFILL_LS_{name}": value for name, value in variables.items()}
    flags = ("--steps", "1", "--marker", "<three>", "--candidates", "6", "--deadline-ms", "50000")
    found = []
    for arguments, more in (((), {}), ((), environment), (flags, environment)):
        await fill(relay, project / "main.py", *arguments, **more)
        asked = relay.requests[0]
        # time that went by, and time kept for fitting, were taken from the deadline: a few seconds
        found.append((asked.max_steps, hole_texts(asked), asked.candidates, -(-asked.deadline_ms // 10_000)))
    assert found == [(3, ["<one>"], 4, 3), (2, ["<two>"], 5, 4), (1, ["<three>"], 6, 5)]


async def test_one_answer_is_chosen_among_several(relay: Relay, project: Path) -> None:
    """Some of what a model writes does not fit, and then the next one is shown instead of nothing."""
    done = await fill(relay, project / "main.py", "--json", "--candidates", "1")
    assert relay.requests[0].candidates > 1
    assert len(json.loads(done.stdout)["candidates"]) == 1


async def test_environment_and_flags_choose_which_worker_is_asked(resident: WorkerPaths, project: Path) -> None:
    chosen = paths_of(WorkerOptions(device="cpu", dtype="float32"))
    async with relay_to(resident.socket, chosen.socket.name) as relay:
        await fill(relay, project / "main.py", "--steps", "1", "--dtype", "float32", INFILL_LS_DEVICE="cpu")
        assert relay.requests


async def test_a_checkout_cannot_choose_the_model_unless_it_is_trusted(relay: Relay, project: Path) -> None:
    write_settings(project, 'model = "no-such-model"')
    done = await fill(relay, project / "main.py", "--steps", "1")
    assert relay.requests
    assert "infill-ls.toml: model is ignored" in done.stderr
    trusting = await fill(relay, project / "main.py", "--trust-workspace")
    assert (trusting.returncode, relay.requests) == (2, [])
    assert "no such model" in trusting.stderr


async def test_a_file_that_may_hold_secrets_is_refused_unread(relay: Relay, project: Path) -> None:
    (project / ".env").write_bytes(b"KEY=???\xff")  # if it was read, the message would be another
    (project / "notes.py").symlink_to(".env")
    (project / "second.py").symlink_to("token")
    (project / "token").symlink_to("main.py")
    leads = f" (it leads to {project / '.env'})"
    for name, more in (("second.py", f" (it leads to {project / 'token'})"), (".env", ""), ("notes.py", leads)):
        done = await fill(relay, project / name)
        assert (done.returncode, relay.requests) == (2, [])
        assert done.stderr.startswith(f"infill-ls: {project / name}: by the built-in rule for ")
        assert done.stderr.endswith(f", {SECRET}{more}\n")

"""`infill-ls fill` obeys privacy and settings as the server does: flags over the environment over infill-ls.toml."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from inference.messages import Hole, InfillRequest
from lsp_server.settings.schema import Settings
from lsp_server.worker import WorkerOptions
from lsp_server.worker.paths import WorkerPaths, paths_of
from tests.e2e.relay import Relay, relay_to
from tests.workers import infill_ls

CODE = "a = <one>\nb = <two>\nc = <three>\nd = ???\n"
SECRET = "files like this one may hold secrets and are never read"


@dataclass
class Done:
    """How the command ended, and what the worker was asked."""

    status: int
    stdout: str
    stderr: str
    requests: list[InfillRequest]

    @property
    def request(self) -> InfillRequest:
        """The first request; a second one asks for more candidates where none of the first fits."""
        return self.requests[0]


async def fill(relay: Relay, file: Path, *arguments: str, **environment: str) -> Done:
    relay.requests.clear()
    done = await asyncio.to_thread(infill_ls, "fill", file, *arguments, folder=relay.folder, **environment)
    return Done(done.returncode, done.stdout, done.stderr, list(relay.requests))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "main.py").write_text(CODE)
    return tmp_path


def write_settings(project: Path, text: str) -> None:
    (project / "infill-ls.toml").write_text(text)


def hole_texts(request: InfillRequest) -> list[str]:
    return [part.text for part in request.segments if isinstance(part, Hole)]


async def test_without_settings_it_asks_as_the_server_does(resident: WorkerPaths, project: Path) -> None:
    settings = Settings()
    async with relay_to(resident.socket) as relay:
        request = (await fill(relay, project / "main.py")).request
    assert request.candidates == settings.candidates.invoked
    assert settings.deadline_ms.invoked - 10_000 < request.deadline_ms <= settings.deadline_ms.invoked
    assert (request.max_steps, request.language, request.path) == (settings.max_steps, "python", "main.py")
    assert hole_texts(request) == ["???"]


async def test_settings_file_then_environment_then_command_line(resident: WorkerPaths, project: Path) -> None:
    write_settings(
        project, 'maxSteps = 3\nmarker = "<one>"\ncandidates = { invoked = 4 }\ndeadlineMs = { invoked = 30_000 }'
    )
    variables = {"MAX_STEPS": "2", "MARKER": "<two>", "CANDIDATES_INVOKED": "5", "DEADLINE_MS_INVOKED": "40000"}
    environment = {f"INFILL_LS_{name}": value for name, value in variables.items()}
    flags = ("--steps", "1", "--marker", "<three>", "--candidates", "6", "--deadline-ms", "50000")
    found = []
    async with relay_to(resident.socket) as relay:
        for arguments, more in (((), {}), ((), environment), (flags, environment)):
            asked = (await fill(relay, project / "main.py", *arguments, **more)).request
            # time that went by, and time kept for fitting, were taken from the deadline: a few seconds
            found.append((asked.max_steps, hole_texts(asked), asked.candidates, -(-asked.deadline_ms // 10_000)))
    assert found == [(3, ["<one>"], 4, 3), (2, ["<two>"], 5, 4), (1, ["<three>"], 6, 5)]


async def test_one_answer_is_chosen_among_several(resident: WorkerPaths, project: Path) -> None:
    """Some of what a model writes does not fit, and then the next one is shown instead of nothing."""
    async with relay_to(resident.socket) as relay:
        done = await fill(relay, project / "main.py", "--json", "--candidates", "1")
    assert done.request.candidates > 1
    assert len(json.loads(done.stdout)["candidates"]) == 1


async def test_a_marker_outside_the_holes_is_not_shown_to_the_model(resident: WorkerPaths, project: Path) -> None:
    write_settings(project, 'marker = "<one>"')
    (project / "main.py").write_text("a = <one>\nb = ???\nc = \n")
    async with relay_to(resident.socket) as relay:
        done = await fill(relay, project / "main.py", "--at", "3:5")
    assert "<one>" not in str(done.request.segments) and "???" in str(done.request.segments)


async def test_environment_and_flags_choose_which_worker_is_asked(resident: WorkerPaths, project: Path) -> None:
    chosen = paths_of(WorkerOptions(device="cpu", dtype="float32"))
    async with relay_to(resident.socket, chosen.socket.name) as relay:
        done = await fill(relay, project / "main.py", "--steps", "1", "--dtype", "float32", INFILL_LS_DEVICE="cpu")
        assert done.requests


async def test_a_checkout_cannot_choose_the_model_unless_it_is_trusted(resident: WorkerPaths, project: Path) -> None:
    write_settings(project, 'model = "no-such-model"')
    async with relay_to(resident.socket) as relay:
        done = await fill(relay, project / "main.py", "--steps", "1")
        assert done.requests
        assert "infill-ls.toml: model is ignored" in done.stderr
        trusting = await fill(relay, project / "main.py", "--trust-workspace")
    assert (trusting.status, trusting.requests) == (2, [])
    assert "no such model" in trusting.stderr


async def test_bad_setting_is_reported_and_the_rest_used(resident: WorkerPaths, project: Path) -> None:
    write_settings(project, 'maxStep = 3\nmarker = "<one>"')
    async with relay_to(resident.socket) as relay:
        done = await fill(relay, project / "main.py", "--steps", "1", INFILL_LS_DTYPE="float64")
    assert "infill-ls.toml: unknown setting 'maxStep' (did you mean 'maxSteps'?); ignored" in done.stderr
    assert "environment variable INFILL_LS_DTYPE: " in done.stderr
    assert hole_texts(done.request) == ["<one>"]


async def test_a_file_that_may_hold_secrets_is_refused_unread(resident: WorkerPaths, project: Path) -> None:
    (project / ".env").write_bytes(b"KEY=???\xff")  # if it was read, the message would be another
    (project / "notes.py").symlink_to(".env")
    (project / "second.py").symlink_to("token")
    (project / "token").symlink_to("main.py")
    async with relay_to(resident.socket) as relay:
        done = await fill(relay, project / "second.py")
        assert (done.status, done.requests) == (2, [])
        for name in (".env", "notes.py"):
            done = await fill(relay, project / name)
            assert (done.status, done.requests) == (2, [])
            leads = "" if name == ".env" else f" (it leads to {project / '.env'})"
            assert done.stderr == f"infill-ls: {project / name}: {SECRET}{leads}\n"


async def test_a_file_that_is_switched_off_is_refused(resident: WorkerPaths, project: Path) -> None:
    async with relay_to(resident.socket) as relay:
        for toml, said in {
            'secretGlobs = ["main.*"]': SECRET,
            'disabledGlobs = ["*.py"]': "fills are switched off for this file (disabledGlobs)",
            'disabledLanguages = ["python"]': "fills are switched off for python (disabledLanguages)",
        }.items():
            write_settings(project, toml)
            done = await fill(relay, project / "main.py")
            assert (done.status, done.requests) == (2, [])
            assert done.stderr == f"infill-ls: {project / 'main.py'}: {said}\n"

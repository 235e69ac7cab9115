"""`infill-ls fill` obeys privacy and settings as the server does: flags over the environment over infill-ls.toml."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from inference.messages import Hole, InfillRequest
from lsp_server.settings.schema import Settings
from lsp_server.worker import WorkerOptions
from lsp_server.worker.paths import WorkerPaths, paths_of
from tests.e2e.relay import Relay, relay_to

pytestmark = pytest.mark.asyncio(loop_scope="session")
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
    """Run the real command."""
    relay.requests.clear()
    command = [sys.executable, "-m", "lsp_server.cli", "fill", str(file), *arguments]
    everything = os.environ | {"INFILL_LS_RUNTIME_DIR": str(relay.folder)} | environment
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=everything
    )
    stdout, stderr = await process.communicate()
    return Done(process.returncode or 0, stdout.decode(), stderr.decode(), list(relay.requests))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of a repository, with a file that has holes."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "main.py").write_text(CODE)
    return tmp_path


def write_settings(project: Path, text: str) -> None:
    (project / "infill-ls.toml").write_text(text)


def hole_texts(request: InfillRequest) -> list[str]:
    return [part.text for part in request.segments if isinstance(part, Hole)]


def deadline_s(request: InfillRequest) -> int:
    """The deadline before time that went by, and time kept for fitting, were taken from it: a few seconds."""
    return -(-request.deadline_ms // 10_000) * 10


async def test_without_settings_it_asks_as_the_server_does(resident: WorkerPaths, project: Path) -> None:
    settings = Settings()
    async with relay_to(resident.socket) as relay:
        request = (await fill(relay, project / "main.py")).request
    assert request.candidates == settings.candidates.invoked
    assert deadline_s(request) == settings.deadline_ms.invoked // 1000
    assert (request.max_steps, request.language, request.path) == (settings.max_steps, "python", "main.py")
    assert hole_texts(request) == ["???"]


@pytest.mark.parametrize(
    ("toml", "variable", "flag", "read", "values"),
    [
        ("maxSteps = 3", "MAX_STEPS=2", "--steps 1", lambda request: request.max_steps, (3, 2, 1)),
        (
            "deadlineMs = { invoked = 30_000 }",
            "DEADLINE_MS_INVOKED=40000",
            "--deadline-ms 50000",
            lambda request: deadline_s(request),
            (30, 40, 50),
        ),
        (
            "candidates = { invoked = 4 }",
            "CANDIDATES_INVOKED=5",
            "--candidates 6",
            lambda request: request.candidates,
            (4, 5, 6),
        ),
        ('marker = "<one>"', "MARKER=<two>", "--marker <three>", hole_texts, (["<one>"], ["<two>"], ["<three>"])),
    ],
    ids=["maxSteps", "deadlineMs", "candidates", "marker"],
)
async def test_settings_file_then_environment_then_command_line(
    resident: WorkerPaths,
    project: Path,
    toml: str,
    variable: str,
    flag: str,
    read: Callable[[InfillRequest], Any],
    values: tuple[Any, Any, Any],
) -> None:
    write_settings(project, toml)
    name, _, value = variable.partition("=")
    environment = {f"INFILL_LS_{name}": value}
    async with relay_to(resident.socket) as relay:
        file = project / "main.py"
        runs = [
            await fill(relay, file),
            await fill(relay, file, **environment),
            await fill(relay, file, *flag.split(), **environment),
        ]
    assert [read(done.request) for done in runs] == list(values)


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
    assert "<one>" not in str(done.request.segments)
    assert "???" in str(done.request.segments)


@pytest.mark.parametrize(("name", "value"), [("device", "cpu"), ("dtype", "float32")])
async def test_the_environment_chooses_which_worker_is_asked(
    resident: WorkerPaths, project: Path, name: str, value: str
) -> None:
    chosen = paths_of(WorkerOptions(**{name: value}))
    async with relay_to(resident.socket, chosen.socket.name) as relay:
        done = await fill(relay, project / "main.py", "--steps", "1", **{f"INFILL_LS_{name.upper()}": value})
        assert done.requests
        done = await fill(relay, project / "main.py", "--steps", "1", f"--{name}", value)
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


@pytest.mark.parametrize("given", [("--marker", "x" * 65), ("--marker", "")])
async def test_what_is_wrong_on_the_command_line_is_refused(
    resident: WorkerPaths, project: Path, given: tuple[str, ...]
) -> None:
    async with relay_to(resident.socket) as relay:
        done = await fill(relay, project / "main.py", *given)
    assert (done.status, done.requests) == (2, [])
    assert "command line: marker: " in done.stderr
    assert done.stderr.count("\n") == 1


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


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ('secretGlobs = ["main.*"]', SECRET),
        ('disabledGlobs = ["*.py"]', "fills are switched off for this file (disabledGlobs)"),
        ('disabledLanguages = ["python"]', "fills are switched off for python (disabledLanguages)"),
    ],
)
async def test_a_file_that_is_switched_off_is_refused(
    resident: WorkerPaths, project: Path, toml: str, said: str
) -> None:
    write_settings(project, toml)
    async with relay_to(resident.socket) as relay:
        done = await fill(relay, project / "main.py")
        assert (done.status, done.requests) == (2, [])
        assert done.stderr == f"infill-ls: {project / 'main.py'}: {said}\n"
        (project / "infill-ls.toml").unlink()
        setting, _, value = toml.partition(" = ")
        variable = {"secretGlobs": "SECRET_GLOBS", "disabledGlobs": "DISABLED_GLOBS"}.get(setting, "DISABLED_LANGUAGES")
        done = await fill(relay, project / "main.py", **{f"INFILL_LS_{variable}": value.strip('[]"')})
        assert (done.status, done.requests) == (2, [])

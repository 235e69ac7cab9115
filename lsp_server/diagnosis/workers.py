"""Finds the user's running workers, of any model, and describes them, in one line each or as JSON. Starts none."""

import asyncio
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from inference.messages import Status
from inference.terminal import format_bytes
from lsp_server.worker.connect import STATUS_S, NotListeningError, attach_with_retries
from lsp_server.worker.failure import WorkerError, WorkerUnresponsiveError
from lsp_server.worker.paths import WorkerPaths, paths_of_socket, socket_folders, worker_processes


class Grade(StrEnum):
    """The result of a check. Only `fail` keeps infill-ls from working."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class CheckResult:
    """The subject of a check, the finding, and the remedy if something is wrong."""

    name: str
    verdict: Grade
    found: str
    advice: str = ""

    @classmethod
    def from_message(cls, name: str, verdict: Grade, message: str, otherwise: str = "") -> "CheckResult":
        """A check whose `message` has its advice after a semicolon, or else `otherwise`."""
        finding, _, advice = message.partition("; ")
        return cls(name, verdict, finding, advice or otherwise)


@dataclass(frozen=True)
class RunningWorker:
    """A worker that answers. `status.clients` does not count this client."""

    paths: WorkerPaths
    worker_version: str
    status: Status


@dataclass(frozen=True)
class WorkerSurvey:
    """The workers found: those that answer, by model name, and those that do not."""

    running: tuple[RunningWorker, ...]
    silent: tuple[WorkerUnresponsiveError, ...]


async def survey_workers(name: str) -> WorkerSurvey:
    """Asks all workers of this user for their status, as the client `name`."""
    folders = socket_folders()
    sockets = {socket for folder in folders for socket in folder.glob("*.sock") if not socket.is_symlink()}
    sockets |= {socket for socket in await asyncio.to_thread(worker_processes) if socket.parent in folders}
    answers = await asyncio.gather(*(_probe(paths_of_socket(socket), name) for socket in sockets))
    running = (worker for worker in answers if isinstance(worker, RunningWorker))
    return WorkerSurvey(
        tuple(sorted(running, key=lambda worker: worker.status.model)),
        tuple(worker for worker in answers if isinstance(worker, WorkerUnresponsiveError)),
    )


async def _probe(paths: WorkerPaths, name: str) -> RunningWorker | WorkerUnresponsiveError | None:
    try:
        connection = await attach_with_retries(paths, name, STATUS_S)
    except WorkerUnresponsiveError as silent:
        return silent
    except (NotListeningError, WorkerError):
        return None
    connection.close()
    status = connection.status
    return RunningWorker(paths, connection.worker_version, msgspec.structs.replace(status, clients=status.clients - 1))


_LONG_STEP_S = 5.0
"""Report a longer step: one usually takes milliseconds."""


def survey_as_json(workers: WorkerSurvey) -> dict[str, object]:
    """All workers found, as JSON: each one's status and files."""
    running = [
        {**msgspec.structs.asdict(worker.status), "release": worker.worker_version, **_files(worker.paths)}
        for worker in workers.running
    ]
    silent = [{"pid": worker.pid, **_files(worker.paths)} for worker in workers.silent]
    return {"running": bool(running), "workers": running, "silent": silent}


def _files(paths: WorkerPaths) -> dict[str, object]:
    return {"socket": str(paths.socket), "log": str(paths.log)}


def describe_status(status: Status) -> str:
    is_slow = status.step_s >= _LONG_STEP_S
    answers = status.server_up_s and f", which has answered for {format_duration(status.server_up_s)}"
    fails = status.server_problem and f", which fails: {status.server_problem}"
    parts: list[object] = [
        f"{status.model} on {status.device or 'a device to be chosen'} {status.dtype}".strip(),
        f"{status.progress:.0%} {status.detail}" if status.state == "loading" and status.detail else status.detail,
        f"process {status.pid}",
        f"up {format_duration(status.uptime_s)}",
        format_bytes(status.memory_bytes),
        status.device_memory_bytes and f"{format_bytes(status.device_memory_bytes)} on the device",
        status.token_ms and f"{status.token_ms:.0f} ms a token",
        status.prompt_token_ms and f"{status.prompt_token_ms:.1f} ms a token of a prompt",
        is_slow and f"{format_duration(status.step_s)} in one step",
        (asked_as := status.partner or status.edits) and f"asked as {asked_as}",
        status.server and f"text goes to {status.server}{fails or answers or ''}",
        status.choice and f"chosen as {status.choice}",
        status.note,
        f"clients {status.clients}",
        f"running {status.running}",
        f"waiting {status.waiting}",
    ]
    return ", ".join(str(part) for part in parts if part)


def describe_loading(status: Status) -> str:
    """What a worker is doing that loads its model; empty for any other."""
    return f"loading {status.model} {status.progress:.0%} {status.detail}" if status.state == "loading" else ""


def format_duration(seconds: float) -> str:
    """A human-readable duration: `45 s`, `12 min`, `3 h 20 min`."""
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if hours < 1 else f"{hours} h {minutes % 60} min"

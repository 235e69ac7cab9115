"""Finds the user's running workers, of any model. Starts none."""

import asyncio
from contextlib import closing
from dataclasses import dataclass

import msgspec

from inference.messages import Status
from lsp_server.worker.connect import STATUS_S, NotListeningError, join
from lsp_server.worker.failure import SilentError, WorkerFailure
from lsp_server.worker.paths import WorkerPaths, paths_at, socket_folders
from lsp_server.worker.processes import worker_processes


@dataclass(frozen=True)
class RunningWorker:
    """A worker that answers. `status.clients` does not count this client."""

    paths: WorkerPaths
    release: str
    status: Status


@dataclass(frozen=True)
class Survey:
    """The workers found: those that answer, by model name, and those that do not."""

    running: tuple[RunningWorker, ...]
    silent: tuple[SilentError, ...]


async def survey(name: str) -> Survey:
    """Asks every worker for its status."""
    folders = socket_folders()
    sockets = {
        socket for folder in folders if folder.is_dir() for socket in folder.glob("*.sock") if not socket.is_symlink()
    }
    sockets |= {socket for socket in await asyncio.to_thread(worker_processes) if socket.parent in folders}
    answers = await asyncio.gather(*(_ask(paths_at(socket), name) for socket in sockets))
    running = (worker for worker in answers if isinstance(worker, RunningWorker))
    return Survey(
        tuple(sorted(running, key=lambda worker: worker.status.model)),
        tuple(worker for worker in answers if isinstance(worker, SilentError)),
    )


async def _ask(paths: WorkerPaths, name: str) -> RunningWorker | SilentError | None:
    try:
        stream = await join(paths, name, STATUS_S)
        with closing(stream):
            async with asyncio.timeout(STATUS_S):
                while not isinstance(status := await stream.receive(), Status):
                    pass
    except SilentError as silent:
        return silent
    except TimeoutError:
        return SilentError(paths)
    except (NotListeningError, WorkerFailure, OSError, EOFError, ValueError):
        return None
    return RunningWorker(paths, stream.release, msgspec.structs.replace(status, clients=status.clients - 1))

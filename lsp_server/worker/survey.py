"""Which workers of this user run, whatever their model. Starts none."""

import asyncio
from dataclasses import dataclass

import msgspec

from inference.messages import Status
from lsp_server.worker.attach import attach
from lsp_server.worker.failure import WorkerFailure
from lsp_server.worker.paths import WorkerPlace, place_at, socket_folders
from lsp_server.worker.transport import NotListeningError

ANSWER_S = 5.0
"""A worker that takes longer counts as not running."""


@dataclass(frozen=True)
class Running:
    """A worker that answers. `status.clients` does not count the one who asks."""

    place: WorkerPlace
    release: str
    status: Status


async def running_workers(name: str) -> list[Running]:
    """Every worker that answers, in the order of their models' names."""
    sockets = [socket for folder in socket_folders() if folder.is_dir() for socket in folder.glob("*.sock")]
    found = await asyncio.gather(*(_ask(place_at(socket), name) for socket in sockets))
    return sorted((worker for worker in found if worker), key=lambda worker: worker.status.model)


async def _ask(place: WorkerPlace, name: str) -> Running | None:
    try:
        async with asyncio.timeout(ANSWER_S):
            attached = await attach(place, name)
            try:
                while not isinstance(status := await attached.stream.receive(), Status):
                    pass
            finally:
                attached.stream.close()
    except (NotListeningError, WorkerFailure, OSError, EOFError, ValueError, TimeoutError):
        return None
    return Running(place, attached.welcome.version, _without_us(status))


def _without_us(status: Status) -> Status:
    return msgspec.structs.replace(status, clients=status.clients - 1)

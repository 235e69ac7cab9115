"""Keeps a worker reachable: its socket and lock may be deleted while it lives, and clients find it by these alone."""

import asyncio
from collections.abc import Callable

from inference.serving.claim import Claim
from inference.serving.listener import Listener
from inference.serving.logs import log
from inference.serving.startup import NotPrivateError, WorkerArguments, require_private_folder

CHECK_EVERY_S = 1.0
"""Two or three file names are looked up each time."""


async def stay_reachable(
    arguments: WorkerArguments, claim: Claim, opened: Listener, give_way: Callable[[], None]
) -> None:
    """Put back what is deleted, until this is cancelled. Calls `give_way` once where another worker has our place."""
    told = ""
    while True:
        await asyncio.sleep(CHECK_EVERY_S)
        try:
            if not await _restored(arguments, claim, opened):
                log.warning("%s was deleted, and another worker listens there now: this one ends", arguments.socket)
                give_way()
                return
            told = ""
        except (OSError, NotPrivateError) as error:
            if str(error) != told:
                told = str(error)
                log.warning("this worker cannot be reached by new clients: %s", told)


async def _restored(arguments: WorkerArguments, claim: Claim, opened: Listener) -> bool:
    """Whether the socket is ours, after putting back what is missing. Raises OSError or NotPrivateError."""
    if claim.stands and opened.stands:
        return True
    folder = arguments.socket.parent
    folder.mkdir(mode=0o700, exist_ok=True)  # the folder alone: what is above it may be a disk that was unmounted
    require_private_folder(folder)
    if not claim.renew():
        return False
    if not opened.stands:
        await opened.open()
        log.warning("%s was deleted: listening again", arguments.socket)
    return True

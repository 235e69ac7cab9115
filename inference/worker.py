"""The resident worker: `python -m inference.worker --socket PATH --model M`. Ends when idle, on `Shutdown` and SIGTERM.

One process holds one model for all of a user's editors. It listens before it loads: only the engine's thread imports
torch, and not if the model is a server's URL.
"""

import asyncio
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

from inference.remote import address, registry
from inference.remote.address import AddressError
from inference.serving import logs, startup
from inference.serving.claim import Claim, stay_reachable
from inference.serving.connection import ClientConnection
from inference.serving.engine_thread import LoadInfiller, engine_thread, load_engine
from inference.serving.faults import bound_heap
from inference.serving.listener import Listener
from inference.serving.remote_jobs import ConnectInfiller, RemoteJobs, connection
from inference.serving.scheduler import Scheduler
from inference.serving.startup import NotPrivateError, WorkerArguments
from inference.serving.worker_service import WorkerService

EXIT_REFUSED = 2
"""The folder, log, socket or URL is unusable; stderr says why."""
EXIT_TAKEN = 3
"""Another worker has this socket: use that one."""
FLUSH_S = 1.0
SWITCH_S = 0.001
"""How long the engine's thread may keep the interpreter from a client; Python's 5 ms would be noticeable."""


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until the end; returns the exit status. The lock is released when the process ends, after its memory."""
    arguments = startup.parse(argv)
    bound_heap()
    claim = Claim(arguments.socket)
    try:
        if address.is_url(arguments.model):
            address.parse(arguments.model, registry.role_of(arguments))  # before logging: it may contain a password
        startup.require_private_folder(arguments.socket.parent)
        if not claim.take():
            print(f"another worker is running at {arguments.socket}", file=sys.stderr)
            return EXIT_TAKEN
        logs.set_up(arguments.log, foreground=arguments.foreground)
        if address.is_url(arguments.model):
            return asyncio.run(serve_remote(arguments, claim, registry.connect))
        return asyncio.run(serve(arguments, claim, load_engine))
    except (AddressError, NotPrivateError, OSError) as error:
        print(f"the worker cannot start: {error}", file=sys.stderr)
        return EXIT_REFUSED


async def serve(arguments: WorkerArguments, claim: Claim, load: LoadInfiller) -> int:
    """Listens, loads the infiller, and serves until told to end or idle; returns the exit status. Raises OSError."""
    scheduler = Scheduler()
    service = WorkerService(arguments, scheduler)
    return await _serve(arguments, claim, service, engine_thread(arguments, load, scheduler, service))


async def serve_remote(arguments: WorkerArguments, claim: Claim, connect: ConnectInfiller) -> int:
    """The same for a server that fills holes. No thread computes: requests run on the event loop."""
    jobs = RemoteJobs()
    service = WorkerService(arguments, jobs)
    return await _serve(arguments, claim, service, connection(arguments, connect, jobs, service))


async def _serve(
    arguments: WorkerArguments, claim: Claim, service: WorkerService, work: AbstractAsyncContextManager[None]
) -> int:
    """Listens, then does the work, which begins on entering `work` and ends on leaving it."""
    sys.setswitchinterval(SWITCH_S)
    _on_signals(service.shut_down)
    opened = Listener(arguments.socket, arguments.transport, lambda *pair: ClientConnection(service, *pair).serve())
    await opened.open()
    service.token = opened.token
    logs.log.info("listening at %s for %s", arguments.socket, arguments.model)
    async with work:
        watch = asyncio.create_task(stay_reachable(arguments, claim, opened, service.give_way))
        await service.ended.wait()
        watch.cancel()
        opened.close()
    await _flush(service.connections)
    return service.exit_code


def _on_signals(stop: Callable[[], None]) -> None:
    """Calls `stop` on the loop on SIGTERM and Ctrl-C."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))


async def _flush(connections: set[ClientConnection]) -> None:
    """Gives the last messages a moment to go out, without waiting long for a client that does not read."""
    if connections:
        await asyncio.wait([asyncio.create_task(connection.flush()) for connection in connections], timeout=FLUSH_S)


if __name__ == "__main__":
    faulthandler.enable()
    status = main()
    logging.shutdown()
    os._exit(status)  # the engine's thread may be deep in a load or a step: neither wait for it nor unwind under it

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
from collections.abc import Awaitable, Callable, Sequence

from inference.remote import address, server_backend
from inference.remote.address import AddressError
from inference.serving import startup
from inference.serving.connection import ClientConnection
from inference.serving.engine_thread import load_engine, start_engine_thread
from inference.serving.log_and_errors import log, set_up_log
from inference.serving.scheduler import Backend
from inference.serving.startup import WorkerArguments
from inference.serving.worker_service import WorkerService
from inference.serving.worker_socket import WorkerSocket
from inference.terminal import printable

EXIT_REFUSED = 2
"""The folder, log, socket or URL is unusable; stderr says why."""
EXIT_SOCKET_TAKEN = 3
"""Another worker has this socket: use that one."""
FLUSH_S = 1.0
THREAD_SWITCH_S = 0.001
"""How long the engine's thread may keep the interpreter from a client; Python's 5 ms would be noticeable."""


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until the worker ends; returns the exit status. The process keeps the lock until its memory is free."""
    arguments = startup.parse_arguments(argv)
    startup.limit_heap()
    socket = WorkerSocket(arguments.socket, arguments.transport)
    try:
        if address.is_url(arguments.model):
            role = address.setting_names_of(edits=arguments.edits, partner=arguments.partner)
            address.parse_server_url(arguments.model, role)  # before logging: it may hold a password
        if not socket.acquire():
            print(f"another worker is running at {printable(arguments.socket)}", file=sys.stderr)
            return EXIT_SOCKET_TAKEN
        set_up_log(arguments.log)
        return asyncio.run(serve(arguments, socket, _open_backend))
    except (AddressError, OSError) as error:
        is_bare = isinstance(error, OSError) and error.errno is not None
        hint = "; remove what is there, or set INFILL_LS_RUNTIME_DIR to another folder" if is_bare else ""
        print(f"the worker cannot start: {printable(error)}{hint}", file=sys.stderr)
        return EXIT_REFUSED


def _open_backend(arguments: WorkerArguments, service: WorkerService) -> Awaitable[Backend]:
    if address.is_url(arguments.model):
        return server_backend.connect(arguments, service.on_progress)
    return start_engine_thread(load_engine, arguments, service)


OpenBackend = Callable[[WorkerArguments, WorkerService], Awaitable[Backend]]


async def serve(arguments: WorkerArguments, socket: WorkerSocket, open_backend: OpenBackend) -> int:
    """Listens, opens the backend, and serves until told to end or idle; returns the exit status. Raises OSError."""
    sys.setswitchinterval(THREAD_SWITCH_S)
    service = WorkerService(arguments)
    _on_signals(service.shut_down)
    service.token = socket.token

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ClientConnection(service, reader, writer).serve()

    await socket.listen(talk)
    log.info("listening at %s for %s", arguments.socket, arguments.model)
    loading = asyncio.create_task(service.serve_once_loaded(open_backend(arguments, service)))
    watch = asyncio.create_task(socket.call_once_unreachable(service.shut_down))
    await service.wait_until_ended()
    loading.cancel()
    watch.cancel()
    socket.close()
    await service.scheduler.close()
    await _flush(service.connections)
    return 1 if service.failure else 0


def _on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(signal_number, stop)
        except NotImplementedError:  # Windows
            signal.signal(signal_number, lambda *_: loop.call_soon_threadsafe(stop))


async def _flush(connections: set[ClientConnection]) -> None:
    """Sends the last messages, but does not wait longer than `FLUSH_S` for clients that do not read them."""
    if connections:
        await asyncio.wait([asyncio.create_task(connection.flush()) for connection in connections], timeout=FLUSH_S)


if __name__ == "__main__":
    faulthandler.enable()
    status = main()
    logging.shutdown()
    os._exit(status)  # the engine's thread may be deep in a load or a step: neither wait for it nor unwind under it

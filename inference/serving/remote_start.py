"""Connects to the server that has the model, on the worker's event loop, and hands it to those who wait."""

import asyncio
import ctypes
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from inference.models.family import OnProgress
from inference.serving.engine_thread import LoadObserver, load_failure, throttled
from inference.serving.infiller import RemoteInfiller
from inference.serving.remote_jobs import RemoteJobs
from inference.serving.startup import WorkerArguments

ConnectInfiller = Callable[[WorkerArguments, OnProgress], Awaitable[RemoteInfiller]]
"""Connects to the server that `WorkerArguments.model` names. Raises ModelError where that cannot be used."""


@asynccontextmanager
async def connection(
    arguments: WorkerArguments, connect: ConnectInfiller, jobs: RemoteJobs, observer: LoadObserver
) -> AsyncIterator[None]:
    """Connect in the background and let `jobs` run; at the end what is not answered fails, and the server is left."""
    connecting = asyncio.create_task(_connect(arguments, connect, jobs, observer))
    try:
        yield
    finally:
        connecting.cancel()
        await jobs.close()


async def _connect(
    arguments: WorkerArguments, connect: ConnectInfiller, jobs: RemoteJobs, observer: LoadObserver
) -> None:
    """Tells `observer` how it goes; never raises an Exception."""
    observer.progress(0.0, "starting")
    try:
        infiller = await connect(arguments, throttled(observer))
    except Exception as error:
        observer.failed(*load_failure(error, arguments))
    else:
        _return_memory()
        jobs.begin(infiller)
        observer.ready(infiller)


def _return_memory() -> None:
    """Give freed memory back to the system: to read a tokenizer of 262,144 tokens takes 90 MB more than to keep it."""
    gc.collect()
    with suppress(OSError, AttributeError, TypeError):  # no glibc
        ctypes.CDLL(None).malloc_trim(0)

"""Joining a worker that runs."""

import asyncio
from dataclasses import dataclass

from inference.messages import ErrorCode, Failed, Hello, Welcome
from lsp_server.worker.failure import WorkerFailure
from lsp_server.worker.paths import WorkerPlace, why_not_private
from lsp_server.worker.silent import SilentError
from lsp_server.worker.transport import NotListeningError, Stream, connect

HANDSHAKE_S = 15.0
"""A worker answers at once, unless its machine is busy loading a model from a cold disk."""
ANSWER_S = 5.0
"""How long those wait who only want to know how it is."""


@dataclass(frozen=True)
class Attached:
    """A connection on which the worker has said welcome."""

    stream: Stream
    welcome: Welcome


async def attach(place: WorkerPlace, name: str, limit_s: float = HANDSHAKE_S) -> Attached:
    """Join the worker at `place` as `name`.

    Raises NotListeningError when there is none, SilentError when it does not answer within `limit_s`, and another
    WorkerFailure when it refuses or the folder is not safe to use.
    """
    if trouble := why_not_private(place.folder):
        raise WorkerFailure(ErrorCode.INTERNAL, trouble)
    stream = await connect(place.socket)
    try:
        async with asyncio.timeout(limit_s):
            return Attached(stream, await _greet(stream, name))
    except TimeoutError:  # an OSError too, so it comes first
        stream.close()
        raise SilentError(place) from None
    except (OSError, EOFError, ValueError) as error:
        stream.close()
        raise NotListeningError(f"what listens at {place.socket} does not answer as a worker") from error
    except BaseException:
        stream.close()
        raise


async def _greet(stream: Stream, name: str) -> Welcome:
    stream.send(Hello(client=name, token=stream.token))
    match await stream.receive():
        case Welcome() as welcome:
            return welcome
        case Failed(code=code, message=message):
            raise WorkerFailure(code, message)
        case _:
            raise ValueError("a worker says welcome first")

"""One client: its handshake, its requests, its replies. Knows nothing about the engine."""

import asyncio
import hmac
import os
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec

from inference import messages
from inference.messages import ClientMessage, Done, ErrorCode, Failed, Request
from inference.serving.log_and_errors import log, redacted_traceback
from inference.serving.scheduler import Job, JobEvent

if TYPE_CHECKING:  # it makes the connections
    from inference.serving.worker_service import WorkerService

HANDSHAKE_S = 10.0
GOODBYE_S = 1.0
MAX_UNSENT_BYTES = 8 * 1024 * 1024
"""With more unread output than this, the client is disconnected, since its messages must not fill the memory."""
MAX_REQUESTS = 64
"""The most requests in flight of one client."""
MAX_HELLO_BYTES = 4096
"""The longest message of a client before its handshake."""


class DisconnectClientError(Exception):
    """The client must be disconnected. The last message to it has `code` and str()."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class ClientConnection:
    """Reads one client's messages, and sends it the replies to its jobs."""

    def __init__(self, service: "WorkerService", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._service = service
        self._reader = reader
        self._writer = writer
        self.jobs: dict[str, Job] = {}
        self.has_requested = False

    async def serve(self) -> None:
        """Talks to the client until it leaves or misbehaves; never raises."""
        try:
            await self._shake_hands()
            try:
                self._service.on_client_joined(self)
                while True:
                    self._handle(_decode(await self._read_message()))
            finally:
                self._service.on_client_left(self)
        except DisconnectClientError as refusal:
            await self._refuse(refusal)
        except (OSError, EOFError):
            pass
        except Exception as error:
            log.error("unexpected error with a client: %s", redacted_traceback(error))
        finally:
            self._writer.close()

    def send(self, message: messages.WorkerMessage) -> None:
        """Queues a message; turns a final reply that cannot be encoded into a failure. Never blocks, never raises."""
        if self._writer.is_closing():
            return
        if self._writer.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            log.warning("a client does not read its answers and is cut off")
            self._writer.transport.abort()
            return
        try:
            self._writer.write(messages.encode_frame(message))
        except Exception as error:
            log.error("a %s could not be encoded: %s", type(message).__name__, redacted_traceback(error))
            if isinstance(message, Done | Failed):
                text = f"The answer could not be encoded ({type(error).__name__}); see the worker's log"
                self._writer.write(messages.encode_frame(Failed(message.id, ErrorCode.INTERNAL, text)))

    async def flush(self) -> None:
        """Waits until everything sent is on its way, and closes."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    def deliver(self, job: Job, event: JobEvent) -> None:
        """Sends the events of `job`. The final reply removes it from the client's jobs; nothing follows it."""
        if self.jobs.get(job.request.id) is not job:
            return
        if isinstance(event, Done | Failed):
            del self.jobs[job.request.id]
        self.send(event)

    async def _shake_hands(self) -> None:
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                hello = _decode(await self._read_message(MAX_HELLO_BYTES))
        except TimeoutError:
            raise DisconnectClientError(ErrorCode.BAD_MESSAGE, f"no greeting within {HANDSHAKE_S:g} s") from None
        if not isinstance(hello, messages.Hello):
            raise DisconnectClientError(ErrorCode.BAD_MESSAGE, "the first message must be hello")
        if hello.protocol != (protocol := messages.PROTOCOL_VERSION):
            refusal = f"this worker speaks protocol {protocol}, the client {hello.protocol}; restart the editor"
            raise DisconnectClientError(ErrorCode.WRONG_PROTOCOL, refusal)
        if not hmac.compare_digest(hello.token.encode(), self._service.token.encode()):
            refusal = "wrong token; only the user who started this worker may use it"
            raise DisconnectClientError(ErrorCode.WRONG_TOKEN, refusal)
        self.send(messages.Welcome(version=version("infill-ls"), pid=os.getpid()))

    async def _refuse(self, refusal: DisconnectClientError) -> None:
        """Tells the client why it is disconnected, then reads for a moment: unread input would make it lose that."""
        log.warning("a client was refused: %s", refusal.code)
        self.send(Failed("", refusal.code, str(refusal)))
        with suppress(OSError, TimeoutError):
            self._writer.write_eof()
            async with asyncio.timeout(GOODBYE_S):
                while await self._reader.read(65536):
                    pass

    async def _read_message(self, limit_bytes: int = messages.MAX_MESSAGE_BYTES) -> bytes:
        """A message's bytes. Raises DisconnectClientError if it is too long, EOFError or OSError if the client left."""
        length = int.from_bytes(await self._reader.readexactly(messages.LENGTH_BYTES), "big")
        if length > limit_bytes:
            raise DisconnectClientError(
                ErrorCode.BAD_MESSAGE, f"a message of {length} bytes is over the limit of {limit_bytes}"
            )
        return await self._reader.readexactly(length)

    def _handle(self, message: ClientMessage) -> None:
        match message:
            case messages.InfillRequest() | messages.NextEditRequest():
                self._submit(message)
            case messages.Cancel(id=request_id):
                if request_id in self.jobs:  # otherwise its final reply is on the way
                    self._service.scheduler.cancel(self.jobs[request_id])
            case messages.StatusRequest():
                self.send(self._service.status())
            case messages.Shutdown(if_unused=if_unused):
                if if_unused and self._service.connections - {self}:
                    self.send(self._service.status())
                else:
                    self._service.shut_down()
            case messages.ChooseModelAgain():
                self._service.choose_again()
            case _:
                raise DisconnectClientError(ErrorCode.BAD_MESSAGE, "hello comes once, as the first message")

    def _submit(self, request: Request) -> None:
        if not request.id:
            raise DisconnectClientError(ErrorCode.BAD_REQUEST, "a request needs an id")
        self.has_requested = True
        refused = ""
        if request.id in self.jobs:
            refused = f"a request with the id {request.id} is running"
        elif len(self.jobs) >= MAX_REQUESTS:
            refused = f"more than {MAX_REQUESTS} requests at once; cancel some"
        answer = Failed(request.id, ErrorCode.BAD_REQUEST, refused) if refused else self._service.submit(self, request)
        if isinstance(answer, Failed):
            self.send(answer)
        else:
            self.jobs[request.id] = answer


def _decode(payload: bytes) -> ClientMessage:
    """A client's message. Raises DisconnectClientError for anything else."""
    try:
        return messages.decode_client_message(payload)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        shape = str(error)[:200] if isinstance(error, msgspec.ValidationError) else "malformed msgpack"
        raise DisconnectClientError(ErrorCode.BAD_MESSAGE, f"not a message of this protocol: {shape}") from error

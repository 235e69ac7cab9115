"""One client: its handshake, its requests, its replies. Knows nothing about the engine.

A client that does not read costs a bounded amount of memory: first its drafts and status are dropped, then it is cut
off.
"""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from inference import messages
from inference.messages import Done, Draft, ErrorCode, Failed, Request, Status
from inference.serving import wire
from inference.serving.infiller import JobEvent
from inference.serving.logs import describe, log
from inference.serving.turns import Job
from inference.serving.wire import RefusedError

if TYPE_CHECKING:  # it makes the connections
    from inference.serving.worker_service import WorkerService

HANDSHAKE_S = 10.0
GOODBYE_S = 1.0
DROP_OVER_BYTES = 256 * 1024
"""Above this much unread output, drop drafts and status: newer ones follow."""
CUT_OFF_OVER_BYTES = 8 * 1024 * 1024
"""Above this much unread output, the client counts as gone."""
MAX_REQUESTS = 64
"""How many requests one client may have in flight."""
MAX_IN_FLIGHT_BYTES = 2 * messages.MAX_MESSAGE_BYTES
"""Their total size, including amendments."""


class ClientConnection:
    """A client, and its jobs by request id."""

    def __init__(self, host: "WorkerService", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._host = host
        self._reader = reader
        self._writer = writer
        self.jobs: dict[str, Job] = {}
        self.has_asked = False

    async def serve(self) -> None:
        """Talks to the client until it leaves or misbehaves; never raises."""
        try:
            await self._greet()
            try:
                self._host.joined(self)
                await self._listen()
            finally:
                self._host.left(self)
        except RefusedError as refusal:
            await self._say_goodbye(refusal)
        except (OSError, EOFError):
            pass
        except Exception as error:
            log.error("unexpected error with a client: %s", describe(error))
        finally:
            self._writer.close()

    def send(self, message: messages.WorkerMessage) -> None:
        """Queues a message, unless too much is unread. Never blocks, never raises."""
        if self._writer.is_closing():
            return
        unread_bytes = self._writer.transport.get_write_buffer_size()
        if unread_bytes > CUT_OFF_OVER_BYTES:
            log.warning("a client does not read its answers and is cut off")
            self._writer.transport.abort()
        elif unread_bytes <= DROP_OVER_BYTES or not isinstance(message, Draft | Status):
            self._write(message)

    def _write(self, message: messages.WorkerMessage) -> None:
        """Turns a final reply that cannot be encoded into a failure; drops any other such message."""
        try:
            self._writer.write(messages.frame(message))
        except Exception as error:
            log.error("a %s could not be encoded: %s", type(message).__name__, describe(error))
            if isinstance(message, Done | Failed):
                text = f"The answer could not be encoded ({type(error).__name__}); the worker's log says more"
                self._writer.write(messages.frame(Failed(message.id, ErrorCode.INTERNAL, text)))

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

    async def _greet(self) -> None:
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                payload = await wire.read_payload(self._reader, wire.MAX_HELLO_BYTES)
        except TimeoutError:
            raise RefusedError(ErrorCode.BAD_MESSAGE, f"no greeting within {HANDSHAKE_S:g} s") from None
        wire.check_hello(wire.decode(payload), self._host.token)
        self.send(self._host.welcome())

    async def _say_goodbye(self, refusal: RefusedError) -> None:
        """Says why the connection ends, then reads for a moment: closing with unread input would lose the message."""
        log.warning("a client was refused: %s", refusal.code)
        self.send(Failed("", refusal.code, str(refusal)))
        with suppress(OSError, TimeoutError):
            self._writer.write_eof()
            async with asyncio.timeout(GOODBYE_S):
                while await self._reader.read(65536):
                    pass

    async def _listen(self) -> None:
        while True:
            payload = await wire.read_payload(self._reader)
            try:
                message = wire.decode(payload)
            except RefusedError as refusal:
                if not (request_id := wire.id_of_bad_request(payload)):
                    raise
                self.send(Failed(request_id, ErrorCode.BAD_REQUEST, str(refusal)))  # and keep the connection
            else:
                self._handle(message, len(payload))

    def _handle(self, message: messages.ClientMessage, size_bytes: int) -> None:
        match message:
            case messages.InfillRequest() | messages.NextEditRequest():
                self._ask(message, size_bytes)
            case messages.Cancel(id=request_id):
                if request_id in self.jobs:  # otherwise its final reply is on the way
                    self._host.jobs.cancel(self.jobs[request_id])
            case messages.Amend(id=request_id):
                if request_id in self.jobs:
                    self._amend(self.jobs[request_id], message, size_bytes)
            case messages.StatusRequest():
                self.send(self._host.status())
            case messages.Shutdown():
                self._host.shut_down()
            case _:
                raise RefusedError(ErrorCode.BAD_MESSAGE, "hello comes once, as the first message")

    def _ask(self, request: Request, size_bytes: int) -> None:
        if not request.id:
            raise RefusedError(ErrorCode.BAD_REQUEST, "a request needs an id")
        self.has_asked = True
        answer = self._refusal(request, size_bytes) or self._host.submit(self, request)
        if isinstance(answer, Failed):
            self.send(answer)
        else:
            answer.size_bytes = size_bytes
            self.jobs[request.id] = answer

    def _amend(self, job: Job, amendment: messages.Amend, size_bytes: int) -> None:
        """Forwards typed text. It has no reply of its own, so if there is no room for it, the request fails."""
        if failed := self._overflow(amendment.id, size_bytes):
            self._host.jobs.cancel(job)
            self.deliver(job, failed)
            return
        job.size_bytes += size_bytes
        self._host.jobs.amend(job, amendment)

    def _overflow(self, request_id: str, size_bytes: int) -> Failed | None:
        """Why there is no room for this much more, or None."""
        held = sum(job.size_bytes for job in self.jobs.values())
        if held + size_bytes <= MAX_IN_FLIGHT_BYTES:
            return None
        return Failed(
            request_id,
            ErrorCode.BAD_REQUEST,
            f"{size_bytes} bytes are too many beside {held} bytes of requests that are not answered yet, "
            f"{MAX_IN_FLIGHT_BYTES} together; wait for an answer, or cancel some",
        )

    def _refusal(self, request: Request, size_bytes: int) -> Failed | None:
        """Why to refuse `request`, or None. Leaves a running request with the same id alone."""
        if request.id in self.jobs:
            return Failed(request.id, ErrorCode.BAD_REQUEST, f"a request with the id {request.id} is running")
        if len(self.jobs) >= MAX_REQUESTS:
            return Failed(request.id, ErrorCode.BAD_REQUEST, f"more than {MAX_REQUESTS} requests at once; cancel some")
        return self._overflow(request.id, size_bytes)

"""The endpoint's application and its server. A web page and another machine get in only if the user says so."""

import asyncio
import json
import logging
import signal
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from ipaddress import ip_address
from typing import Any, cast
from urllib.parse import urlsplit

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from inference.deadline import Deadline
from inference.messages import Draft, ErrorCode, NextEditRequest, Stats
from inference.models.catalogue import EMBEDDED
from inference.models.edit_prompts import EditPrompt
from inference.remote.access import ACCESS_HINT, AccessControl
from lsp_server.fill.drafts import DraftReader
from lsp_server.fill.pipeline import fill
from lsp_server.http import schemas
from lsp_server.http.rewriting import RegionRewriter
from lsp_server.settings.schema import Settings
from lsp_server.worker import WorkerClient, WorkerError
from lsp_server.worker.failure import traceback_without_message

log = logging.getLogger(__name__)
_Events = AsyncGenerator[str | schemas.CompletionResult, None]
MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_REQUESTS = 64
"""The most concurrent requests, as many as the worker takes from one client; plugins have fewer."""
MAX_CONNECTIONS = 512
"""The most open connections; most of them are idle."""
MAX_STRANGERS = 256
"""The most open connections that are not the user's own."""
MAX_UNREAD_BYTES = 64 * 1024 * 1024
"""How much of a request is dropped after it was refused, so that its client reads why."""
MAX_ARRIVAL_S = 10.0
"""A request, from the first byte to the last, may take this long to arrive."""
KEEP_ALIVE_S = 30
_MAX_AGENT_CHARACTERS = 100
HEALTH_TIMEOUT_MS = 1_000
"""How long to wait for the model before saying that it is still loading."""
SHUTDOWN_S = 2
"""How long requests may take to end when the server ends."""
_LOOK_EVERY_S = 0.1
_IS_USER = "is_user"
_STATUS = {ErrorCode.BAD_REQUEST: 400, ErrorCode.INTERNAL: 500, ErrorCode.SERVER: 502}
"""503 for all others: ask again later."""


class AccessGuard:
    """Refuses requests of web pages, of other users and hosts without the token, and those beyond `MAX_REQUESTS` at a
    time.

    `hosts`: this server's names. A web page that uses DNS rebinding gives itself away by the name in its Host header;
    an IP address cannot be rebound.
    """

    def __init__(
        self, app: ASGIApp, *, access: AccessControl, hosts: Collection[str], origins: Collection[str]
    ) -> None:
        self._app = app
        self._access = access
        self._hosts = hosts
        self._origins = origins
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_request = scope["type"] == "http"
        is_user = is_request and await scope["state"][_IS_USER]
        if is_request and (refusal := self._refusal(Headers(scope=scope), is_user=is_user)):
            log.info("a request is refused: %s", refusal.detail)
            await _refused(refusal.status_code, refusal.detail)(scope, receive, send)
            return
        self._running += is_request
        try:
            await self._app(scope, receive, send)
        finally:
            self._running -= is_request

    def _refusal(self, headers: Headers, *, is_user: bool) -> HTTPException | None:
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins:
            return HTTPException(403, "web pages may not use this server; start it with --allow-origin to let one")
        has_token = self._access.header_has_token(headers.get("authorization", ""))
        if not has_token and self._access.needs_token(is_user=is_user):
            return HTTPException(
                401, f"the token is missing or wrong; send the header Authorization: Bearer TOKEN; {ACCESS_HINT}"
            )
        name = _name_of(headers.get("host", ""))
        if not has_token and name not in self._hosts and not _is_address(name):
            return HTTPException(
                403,
                f"this server is not called {name[:100]!r}; use its address, {', '.join(sorted(self._hosts))}, "
                f"or any name together with the header Authorization: Bearer TOKEN; {ACCESS_HINT}",
            )
        if self._running >= MAX_REQUESTS:
            return HTTPException(503, f"{MAX_REQUESTS} requests are running; ask again when one has ended")
        return None


def _name_of(host: str) -> str:
    """The name in a Host header, without the port; empty if it is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_address(host: str) -> bool:
    try:
        return bool(ip_address(host))
    except ValueError:
        return False


class CompletionEndpoints:
    """Answers the plugins' requests by having the worker fill holes, or rewrite regions."""

    def __init__(self, client: WorkerClient, settings: Settings, edit_model: WorkerClient | None = None) -> None:
        self._client = client
        self._settings = settings
        self._rewriter = RegionRewriter(client, edit_model, settings)

    def app(self, middleware: list[Middleware]) -> Starlette:
        """The application. It loads the model when it begins to serve."""
        request_types: dict[str, type[schemas.CompletionRequest]] = {
            "/infill": schemas.LlamaInfillRequest,
            "/completion": schemas.LlamaInfillRequest,
            "/v1/completions": schemas.OpenAiCompletionRequest,
            "/v1/fim/completions": schemas.MistralFimRequest,
            "/api/generate": schemas.OllamaGenerateRequest,
        }
        routes = [Route(path, partial(self._fill, kind), methods=["POST"]) for path, kind in request_types.items()]
        routes += [
            Route("/v1/models", self._models),
            Route("/api/tags", self._tags),
            Route("/health", self._health),
        ]
        kinds: tuple[type[Exception], ...] = (WorkerError, HTTPException, ClientDisconnect, Exception)
        return Starlette(
            routes=routes,
            middleware=middleware,
            exception_handlers=dict.fromkeys(kinds, _failed),
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        loading = asyncio.create_task(self._client.load())
        yield
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)  # requests report a failure
        for client in filter(None, (self._client, self._rewriter.edit_model)):
            await client.close()

    async def _health(self, _: Request) -> Response:
        await self._model(HEALTH_TIMEOUT_MS)
        return JSONResponse({"status": "ok"})

    async def _models(self, _: Request) -> Response:
        model = {"id": await self._model(HEALTH_TIMEOUT_MS), "object": "model", "created": 0, "owned_by": "infill-ls"}
        return JSONResponse({"object": "list", "data": [model]})

    async def _tags(self, _: Request) -> Response:
        name = await self._model(HEALTH_TIMEOUT_MS)
        return JSONResponse({"models": [{"name": name, "model": name, "size": 0, "digest": "", "details": {}}]})

    async def _model(self, limit_ms: int) -> str:
        """The model's name once it is loaded. Raises WorkerError; HTTPException if it is only the embedded one."""
        await self._client.load(Deadline(limit_ms))
        status = self._client.last_status
        if better := self._client.better_model:
            raise HTTPException(
                503,
                f"no pulled model runs here; for one run: infill-ls models pull {better} "
                f"(or start this server with --model {EMBEDDED}, for a first try)",
            )
        return status.model if status else self._client.options.model

    async def _fill(self, kind: type[schemas.CompletionRequest], request: Request) -> Response:
        try:
            params = schemas.decode_request(await _body(request), kind)
        except (RecursionError, ValueError) as error:
            raise HTTPException(400, f"invalid request: {error}") from error
        return await _unless_gone(request, self._answer(params, _client_name(request)))

    async def _answer(self, params: schemas.CompletionRequest, client: str) -> Response:
        try:
            edit_prompt = schemas.screened_edit_prompt(params, self._settings)
            fim_input = schemas.FimInput("", "") if edit_prompt else schemas.screened_fim_input(params, self._settings)
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        model = await self._model(self._settings.deadline_ms.invoked)
        is_empty = not (fim_input.path or fim_input.prefix.strip() or fim_input.suffix.strip())
        if edit_prompt is not None:
            events = self._rewrite_events(params, *edit_prompt, client)
        elif params.wanted_tokens == 0 or is_empty:  # llama.vim lets other files be read ahead
            return JSONResponse(params.response(schemas.CompletionResult("", 0.0, is_cut=not is_empty), model))
        else:
            events = self._events(params, fim_input, client)
        event = await anext(events)
        if params.stream:
            media_type = "application/x-ndjson" if params.event_format.startswith("{") else "text/event-stream"
            return StreamingResponse(_stream(params, event, events, model), media_type=media_type)
        while not isinstance(event, schemas.CompletionResult):
            event = await anext(events)
        return JSONResponse(params.response(event, model))

    async def _rewrite_events(
        self, params: schemas.CompletionRequest, prompt: EditPrompt, edit_request: NextEditRequest, client: str
    ) -> _Events:
        """The answer as one part, then as a whole. Raises WorkerError."""
        since = Deadline(self._settings.deadline_ms.automatic)
        answer = prompt.answer_with(await self._rewriter.rewrite(prompt, edit_request, client), params.stops)
        yield answer
        yield schemas.CompletionResult(answer, since.elapsed_ms)

    async def _events(self, params: schemas.CompletionRequest, fim_input: schemas.FimInput, client: str) -> _Events:
        """The text in parts, then as a whole. Ending early cancels the request. Raises WorkerError."""
        snapshot = await asyncio.to_thread(schemas.build_document(fim_input).snapshot)
        status = self._client.last_status
        streams = status is not None and status.token_ms > 0
        budget = schemas.fill_budget(params, self._settings, client)
        span = schemas.find_hole(params, fim_input, snapshot)
        reader = DraftReader(snapshot, [span])
        streamer = schemas.FinalTextTracker(params.stops)
        tokens = 0
        parts = asyncio.Queue[str | None]()

        def on_draft(draft: Draft) -> None:
            nonlocal tokens
            tokens = draft.step
            if not streamer.is_stopped:
                parts.put_nowait(
                    streamer.take_final("".join(hole.text for hole in reader.read_holes(draft)), is_whole=False)
                )
            if streamer.is_stopped:
                parts.put_nowait(None)

        drafts = on_draft if streams else None
        filling = asyncio.create_task(
            fill(self._client, snapshot, [span], budget, on_draft=drafts, context=fim_input.context)
        )
        filling.add_done_callback(lambda _: parts.put_nowait(None))
        try:
            while (part := await parts.get()) is not None:
                if part:
                    yield part
            result = None if streamer.is_stopped else filling.result()
            best = result.candidates[0] if result and result.candidates else None
            if tail := streamer.take_final(best.texts[0], is_whole=True) if best else "":
                yield tail
            is_short = best is not None and (not best.complete or 0 < budget.max_tokens <= best.tokens)
            stats = result.stats if result else Stats()
            yield schemas.CompletionResult(
                streamer.sent,
                budget.deadline.elapsed_ms,
                is_short and not streamer.is_stopped,
                best.tokens if best else tokens,
                stats,
            )
        finally:
            filling.cancel()
            await asyncio.wait({filling})


async def _stream(
    params: schemas.CompletionRequest, event: str | schemas.CompletionResult, events: _Events, model: str
) -> AsyncIterator[str]:
    """The events, each with its JSON."""
    async with aclosing(events):
        try:
            while not isinstance(event, schemas.CompletionResult):
                yield params.event_format.format(json.dumps(params.stream_event(event, model)))
                event = await anext(events)
            yield params.event_format.format(json.dumps(params.last_event(event, model)))
        except WorkerError as failure:
            yield params.event_format.format(json.dumps(_error(_STATUS.get(failure.code, 503), str(failure))))
        yield params.last_line


def _client_name(request: Request) -> str:
    """Distinguishes the plugins of a machine, which may open a new connection for each request."""
    host = request.client.host if request.client else ""
    return f"{host} {request.headers.get('user-agent', '')[:_MAX_AGENT_CHARACTERS]}"


async def _body(request: Request) -> bytes:
    """Reads the body. Raises HTTPException if it is too long, by its header or in fact, or too slow."""
    too_long = HTTPException(413, f"the request is longer than {MAX_BODY_BYTES} bytes; send less of the file")
    if int(request.headers.get("content-length", 0)) > MAX_BODY_BYTES:
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(MAX_ARRIVAL_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise too_long
    except TimeoutError:
        raise HTTPException(408, f"the request did not arrive within {MAX_ARRIVAL_S:g} s; send it faster") from None
    return bytes(body)


async def _unless_gone(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """The answer. If the client goes away first, cancels the work and raises ClientDisconnect."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.wait((working, leaving))


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _failed(request: Request, error: Exception) -> Response:
    """Tells the client why there is no answer, in the format that llama.cpp and OpenAI share."""
    if isinstance(error, WorkerError):
        return _refused(_STATUS.get(error.code, 503), str(error))
    if isinstance(error, HTTPException):
        paths = ", ".join(route.path for route in request.app.routes)
        is_unknown = error.status_code == 404
        return _refused(error.status_code, f"there is no such path; there are {paths}" if is_unknown else error.detail)
    if not isinstance(error, ClientDisconnect):
        log.error("a request failed: %s", traceback_without_message(error))
    return _refused(500, "internal error in infill-ls; see its log")


def _refused(status: int, reason: str) -> Response:
    """An error response that closes the connection, which may be a stranger's."""
    return JSONResponse(_error(status, reason), status, {"connection": "close"})


def _error(status: int, reason: str) -> dict[str, Any]:
    kind = "unavailable_error" if status == 503 else "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"code": status, "message": reason, "type": kind}}


class _Transport:
    """A connection that is not closed while bytes are unread: the client would lose the answer."""

    def __init__(self, transport: Any, ends_late: Callable[[], bool]) -> None:
        self._transport = transport
        self._ends_late = ends_late

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        if not self._ends_late():
            self._transport.close()


class _Protocol(H11Protocol):  # type: ignore[misc,unused-ignore]
    """Drops a client whose request takes longer than `MAX_ARRIVAL_S` to arrive, and finds out whether a connection is
    the user's own.

    A client may half-close the connection after its request.
    """

    _arrival: asyncio.TimerHandle | None = None
    access: AccessControl
    strangers = 0
    """The connections that are not the user's own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_counted = False
        self._unread_bytes = -1
        """The number of bytes dropped since the answer; negative before it."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(cast("asyncio.Transport", _Transport(transport, self._ends_late)))
        self._is_user = self.loop.create_task(self.access.is_own_user(transport.get_extra_info("socket")))
        self._is_user.add_done_callback(self._count)
        self.app_state = {**self.app_state, _IS_USER: self._is_user}
        self._expect_request()

    def _count(self, is_user: asyncio.Task[bool]) -> None:
        is_stranger = not is_user.cancelled() and not is_user.exception() and not is_user.result()
        if self in self.connections and is_stranger:
            _Protocol.strangers += 1
            self._is_counted = True
            if _Protocol.strangers > MAX_STRANGERS:
                self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_arrival()
        super().connection_lost(exc)
        _Protocol.strangers -= self._is_counted
        self._is_counted = False

    def data_received(self, data: bytes) -> None:
        if self._unread_bytes < 0:
            super().data_received(data)
            return
        self._unread_bytes += len(data)
        if self._unread_bytes > MAX_UNREAD_BYTES:
            self.transport.abort()

    def eof_received(self) -> bool:  # type: ignore[override,unused-ignore]
        """Whether the connection stays open for the answer. A client that is gone answers `100 Continue` by a reset."""
        cycle = self.cycle
        waits = cycle is not None and not cycle.more_body and not cycle.response_complete
        if waits:
            cycle.keep_alive = False
            if not cycle.response_started and self.scope["http_version"] == "1.1":
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._look_for_reset()
        return waits

    def _look_for_reset(self) -> None:
        if self.transport.is_closing():
            return
        if self.transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.transport.abort()
        else:
            self.loop.call_later(_LOOK_EVERY_S, self._look_for_reset)

    def _ends_late(self) -> bool:
        """Whether the client, told that this is the end, may still send the rest of its request."""
        is_late = self.conn.their_state in (h11.SEND_BODY, h11.ERROR) and not self.transport.is_closing()
        if is_late and self._unread_bytes < 0:
            self._unread_bytes = 0
            self.transport.write_eof()
            self.transport.resume_reading()
            self.loop.call_later(MAX_ARRIVAL_S, self.transport.abort)
        return is_late

    def handle_events(self) -> None:
        super().handle_events()
        state = self.conn.their_state
        if state is not h11.SEND_BODY and (state is not h11.IDLE or not self.conn.trailing_data[0]):
            self._end_arrival()
        elif self._arrival is None:
            self._expect_request()

    def _expect_request(self) -> None:
        self._arrival = self.loop.call_later(MAX_ARRIVAL_S, self._drop)

    def _end_arrival(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _drop(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:  # `_body` has a limit of its own, and answers
            self._expect_request()
        elif not self.transport.is_closing():
            log.info("a client is dropped: no whole request within %g s", MAX_ARRIVAL_S)
            self.transport.close()


async def serve(app: Starlette, sockets: list[socket.socket], access: AccessControl) -> None:
    """Serves until SIGTERM or Ctrl-C. The requests that still run then are cancelled."""
    _Protocol.access = access
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    with suppress(NotImplementedError):  # Windows; uvicorn raises the signal again after it has ended
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
    await uvicorn.Server(config).serve(sockets=sockets)


def access_middleware(*, access: AccessControl, hosts: Collection[str], origins: Collection[str]) -> list[Middleware]:
    """The middleware of all requests: `AccessGuard`, and the CORS headers that let web pages read answers."""
    cors = Middleware(CORSMiddleware, allow_origins=[*origins], allow_methods=["*"], allow_headers=["*"])
    return [*([cors] if origins else []), Middleware(AccessGuard, access=access, hosts=hosts, origins=origins)]

"""The endpoint's application and its server. A web page and another machine get in only if the user says so."""

import asyncio
import hmac
import json
import logging
import signal
import socket
import time
from collections.abc import AsyncIterator, Collection, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from inference.messages import Draft, ErrorCode, Hole
from inference.models.catalogue import EMBEDDED
from lsp_server.http.forms import (
    CompletionForm,
    FimForm,
    Form,
    InfillForm,
    Written,
    request_for,
    until_end,
)
from lsp_server.settings.schema import Settings
from lsp_server.worker import Deadline, WorkerClient, WorkerFailure
from lsp_server.worker.failure import traceback_of

log = logging.getLogger(__name__)
MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_RUNNING = 16
"""More requests at a time than a plugin ever has."""
MAX_CONNECTIONS = 128
BODY_S = 10.0
"""A request, from the first byte to the last, may take this long to arrive."""
KEEP_ALIVE_S = 30
HEALTH_MS = 1_000
"""How long to wait for the model before saying that it is still loading."""
END_S = 2
"""How long requests may take to end when the server ends."""
_STATUS = {ErrorCode.BAD_REQUEST: 400, ErrorCode.INTERNAL: 500, ErrorCode.SERVER: 502}
"""503 for all others: ask again later."""


class Guard:
    """Lets no request through that is not the user's: a web page's, another host's, or one without the `token`.

    `hosts`: the names that this server goes by; empty: any, since a token protects it. A page whose own name was made
    to lead here gives itself away by that name.
    """

    def __init__(self, app: ASGIApp, *, token: str, hosts: Collection[str], origins: Collection[str]) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(Headers(scope=scope))):
            log.info("a request is refused: %s", refusal.detail)
            await _refused(refusal.status_code, refusal.detail)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, headers: Headers) -> HTTPException | None:
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins:
            return HTTPException(403, "web pages may not use this server; start it with --allow-origin to let one")
        if self._hosts and _name_of(headers.get("host", "")) not in self._hosts:
            return HTTPException(
                403, f"this server goes by {', '.join(sorted(self._hosts))} only; use one of these names"
            )
        given = headers.get("authorization", "").encode()
        if self._token and not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            return HTTPException(401, "the token is missing or wrong; send the header Authorization: Bearer TOKEN")
        return None


def _name_of(host: str) -> str:
    """The name in a Host header, without the port; empty if it is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


class Endpoint:
    """Answers the plugins' requests by asking the worker."""

    def __init__(self, client: WorkerClient, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self._running = 0

    def app(self, middleware: list[Middleware]) -> Starlette:
        """The application. It loads the model when it begins to serve."""
        forms: dict[str, type[Form]] = {
            "/infill": InfillForm,
            "/v1/completions": CompletionForm,
            "/v1/fim/completions": FimForm,
        }
        fills = [Route(path, partial(self._fill, form), methods=["POST"]) for path, form in forms.items()]
        others = [Route("/v1/models", self._models), Route("/health", self._health)]
        kinds: tuple[type[Exception], ...] = (WorkerFailure, HTTPException, ClientDisconnect, Exception)
        return Starlette(
            routes=[*fills, *others],
            middleware=middleware,
            exception_handlers=dict.fromkeys(kinds, _failed),
            lifespan=self._living,
        )

    @asynccontextmanager
    async def _living(self, _: Starlette) -> AsyncIterator[None]:
        loading = asyncio.create_task(self._load())
        yield
        loading.cancel()
        await self._client.close()

    async def _load(self) -> None:
        with suppress(WorkerFailure):  # the next request says so
            await self._client.load()

    async def _health(self, _: Request) -> Response:
        await self._model(HEALTH_MS)
        return JSONResponse({"status": "ok"})

    async def _models(self, _: Request) -> Response:
        model = {"id": await self._model(HEALTH_MS), "object": "model", "created": 0, "owned_by": "infill-ls"}
        return JSONResponse({"object": "list", "data": [model]})

    async def _model(self, limit_ms: int) -> str:
        """The model's name once it is loaded. Raises WorkerFailure; HTTPException if it is only the embedded one."""
        await self._client.load(Deadline(limit_ms))
        status = self._client.last_status
        if better := self._client.better:
            raise HTTPException(
                503,
                f"no pulled model runs here; for one run: infill-ls models pull {better} "
                f"(or start this server with --model {EMBEDDED}, for a first try)",
            )
        return status.model if status else self._client.options.model

    async def _fill(self, kind: type[Form], request: Request) -> Response:
        if self._running >= MAX_RUNNING:
            raise HTTPException(503, f"{MAX_RUNNING} requests are running already; ask again once one has ended")
        try:
            form = msgspec.json.decode(await _body(request), type=kind)
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            raise HTTPException(400, f"this is no request of this form: {error}") from error
        return await _unless_gone(request, self._answer(form))

    async def _answer(self, form: Form) -> Response:
        model = await self._model(self._settings.deadline_ms.invoked)
        nothing = Written("", 0.0, is_cut=True)  # llama.vim lets other files be read ahead
        written = nothing if form.wanted_tokens == 0 else await self._written(form)
        answer = form.answer(written, model)
        if not form.stream:
            return JSONResponse(answer)
        return Response(f"data: {json.dumps(answer)}\n\n{form.last_line}", media_type="text/event-stream")

    async def _written(self, form: Form) -> Written:
        """What the worker writes; a text that grows from left to right is at its end as soon as it has met one. Raises
        HTTPException, WorkerFailure.
        """
        status = self._client.last_status
        try:
            wanted = request_for(form, self._settings, drafts=status is not None and status.token_ms > 0)
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        before = form.place().before
        ended = asyncio.get_running_loop().create_future()

        def on_draft(draft: Draft) -> None:
            text, has_ended = until_end(draft.texts[0], before, form.stops)
            if has_ended and not ended.done():
                ended.set_result((text, draft.step))

        began_s = time.monotonic()
        asking = asyncio.create_task(self._client.ask(wanted, on_draft))
        self._running += 1
        try:
            await asyncio.wait((asking, ended), return_when=asyncio.FIRST_COMPLETED)
            ms = (time.monotonic() - began_s) * 1000
            if ended.done():
                text, tokens = ended.result()
                return Written(text, ms, tokens=tokens)
            answer = asking.result()
        finally:
            self._running -= 1
            asking.cancel()
            await asyncio.wait({asking})
        if not answer.candidates:
            return Written("", ms, stats=answer.done.stats)
        best = answer.candidates[0]
        text, has_ended = until_end(best.texts[0], before, form.stops)
        most = max(part.max_tokens for part in wanted.segments if isinstance(part, Hole))
        is_cut = not has_ended and (not best.complete or 0 < most <= best.tokens)
        return Written(text, ms, is_cut, best.tokens, answer.done.stats)


async def _body(request: Request) -> bytes:
    """The body. Raises HTTPException if it is too long, by its own word or as it comes, or too slow."""
    too_long = HTTPException(413, f"the request is longer than {MAX_BODY_BYTES} bytes; send less of the file")
    if int(request.headers.get("content-length", 0)) > MAX_BODY_BYTES:
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise too_long
    except TimeoutError:
        raise HTTPException(408, f"the request did not arrive within {BODY_S:g} s; send it faster") from None
    return bytes(body)


async def _unless_gone(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """The answer. If the client goes away first, cancels the work and raises ClientDisconnect."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_leaves(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.wait((working, leaving))


async def _leaves(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _failed(request: Request, error: Exception) -> Response:
    """Says why there is no answer, in the form that llama.cpp and OpenAI share."""
    if isinstance(error, WorkerFailure):
        return _refused(_STATUS.get(error.code, 503), str(error))
    if isinstance(error, HTTPException):
        return _refused(error.status_code, error.detail)
    if not isinstance(error, ClientDisconnect):
        log.error("a request failed: %s", traceback_of(error))
    return _refused(500, "the endpoint failed, which is a fault of infill-ls; its log says where")


def _refused(status: int, why: str) -> Response:
    """Closes the connection, which may be a stranger's."""
    return JSONResponse(_error(status, why), status, {"connection": "close"})


def _error(status: int, why: str) -> dict[str, Any]:
    kind = "unavailable_error" if status == 503 else "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"code": status, "message": why, "type": kind}}


class _Protocol(H11Protocol):  # type: ignore[misc,unused-ignore]
    """Also drops a client that sends no whole request after it has connected."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.loop.call_later(BODY_S, self._require_request)

    def _require_request(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            log.info("a client is dropped: no request within %g s", BODY_S)
            self.transport.close()


async def serve(app: Starlette, listening: socket.socket) -> None:
    """Serves until SIGTERM or Ctrl-C. The requests that still run then are cancelled."""
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
        timeout_graceful_shutdown=END_S,
    )
    with suppress(NotImplementedError):  # Windows; uvicorn raises the signal again after it has ended
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
    await uvicorn.Server(config).serve(sockets=[listening])


def middleware(*, token: str, hosts: Collection[str], origins: Collection[str]) -> list[Middleware]:
    """What every request passes first: `Guard`, and the headers by which a browser lets a page read the answers."""
    cors = Middleware(CORSMiddleware, allow_origins=[*origins], allow_methods=["*"], allow_headers=["*"])
    return [*([cors] if origins else []), Middleware(Guard, token=token, hosts=hosts, origins=origins)]

"""HTTP to one server: sends JSON and receives JSON or a stream. Never contacts another host, and follows no redirect.

Cancelling a request closes its connection, which makes servers abort it. Requests to a busy (429, 503) or unreachable
server are retried after a growing pause, or a longer one that it requests, up to half a minute. All requests share that
pause, with jitter. Answers are untrusted: JSON of known types, names that a terminal can show, and of limited length.
Every server with an API like OpenAI's explains a refusal in `error.message`.
"""

import asyncio
import random
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from typing import TypeVar
from uuid import uuid4

import httpx2
import msgspec

from inference.deadline import Deadline
from inference.engine.errors import RequestError
from inference.messages import ErrorCode
from inference.remote.address import MODEL_SERVER, ServerAddress, ServerSettingNames

_T = TypeVar("_T")
_ANSWER_LIMIT_BYTES = 4 << 20
"""Some three times the answer for the widest canvas, of 256 rows with 129 named tokens each; also for a stream."""
_CONNECT_S = 5.0
_SILENCE_S = 120.0
"""The limit for an answer without a deadline: the first one after a start may compile kernels."""
_TRIES = 4
_DEFAULT_TIMEOUT_MS = 10_000
"""How long a request without a deadline, or with a distant one, waits for a server to recover."""
_JSON = {"content-type": "application/json"}
_BUSY = frozenset({429, 502, 503, 504})
_FIRST_PAUSE_S = 0.25
_MAX_PAUSE_S = 30.0
_JITTER_S = 1.0
"""Waiting requests resume spread over this time, and not all at the same moment."""


class ServerError(RequestError):
    """The server failed; str() says how, and what to do. `status` is that of its answer, 0 without one.

    `pause_s` is None if a retry is useless, otherwise the pause that the server requests, or 0.
    """

    def __init__(self, message: str, status: int = 0, pause_s: float | None = None) -> None:
        super().__init__(message, ErrorCode.SERVER)
        self.status = status
        self.pause_s = pause_s


class AnswerError(ValueError):
    """An answer is invalid. str() says why."""


class _ErrorBody(msgspec.Struct, frozen=True):
    message: str


class _Error(msgspec.Struct, frozen=True):
    error: _ErrorBody


def decode_json(body: bytes, kind: type[_T]) -> _T:
    """Decodes JSON as a value of a type. Raises AnswerError if it is invalid."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AnswerError(f"{error}") from error


def clip_to_one_line(text: str) -> str:
    """The first 300 characters of a text, without control characters, on one line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text[:3000]).split())[:300]


class _Pause:
    """The pause before the next request to a busy or unreachable server. Failures prolong it, an answer ends it."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._failures = 0
        self._until = 0.0
        self._error: ServerError | None = None

    def record_failure(self, error: ServerError) -> None:
        """Pauses for longer each time, or as long as the server requests. Simultaneous failures count once."""
        if error.pause_s is None:
            return
        now_s = time.monotonic()
        if now_s >= self._until:
            self._failures += 1
            longest_s = min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(self._failures, 9))
            self._until = now_s + longest_s * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        self._until = max(self._until, now_s + min(error.pause_s, _MAX_PAUSE_S))
        self._error = error

    async def wait(self, deadline: Deadline) -> None:
        """Waits until the pause is over. Raises ServerError if that is after the deadline."""
        while (remaining_s := self._until - time.monotonic()) > 0:
            jitter_s = random.uniform(0.0, min(remaining_s / 2, _JITTER_S))  # noqa: S311
            if self._until + jitter_s > deadline.time_s and self._error is not None:
                raise ServerError(str(self._error), self._error.status)
            await asyncio.sleep(remaining_s + jitter_s)


class ModelServerClient:
    """A server's HTTP API. For one event loop; concurrent requests share kept connections."""

    def __init__(self, address: ServerAddress, *, token: str = "", role: ServerSettingNames = MODEL_SERVER) -> None:
        """`token` is sent as a bearer token. Requests to a server on this machine never go through a proxy."""
        self.address = address
        self.on_refused: Callable[[], None] = lambda: None
        """Called when the server refuses a request, for example because it restarted with another model."""
        self.url = address.url
        self.role = role
        headers = {"accept-encoding": "identity", "x-session-id": uuid4().hex}  # which keeps a router on one replica
        self._pause = _Pause()
        self._http = httpx2.AsyncClient(
            headers=headers | ({"authorization": f"Bearer {token}"} if token else {}),
            timeout=httpx2.Timeout(_SILENCE_S, connect=_CONNECT_S, pool=None),
            limits=httpx2.Limits(max_connections=64, max_keepalive_connections=16, keepalive_expiry=60.0),
            follow_redirects=False,
            trust_env=address.is_encrypted and not address.is_local,  # plain http goes by no proxy
            # trusts whom the system trusts, or the file that SSL_CERT_FILE names (SSL_CERT_DIR: the folder) instead
            verify=httpx2.create_ssl_context(trust_env=True),
        )

    async def fetch(self, path: str, body: object = None, deadline: Deadline | None = None) -> bytes:
        """The body of an answer with status 200: to a POST of `body` as JSON, or to a GET without one.

        Raises ServerError, and TimeoutError at the deadline.
        """

        async def whole() -> bytes:
            async with aclosing(await self._open(path, body)) as response:
                return b"".join([part async for part in self._parts(response)])

        async with asyncio.timeout_at(deadline.time_s if deadline else None):
            return await self._with_retries(whole, deadline)

    async def stream(self, path: str, body: object, deadline: Deadline | None = None) -> AsyncGenerator[bytes, None]:
        """The parts of an answer with status 200 as they arrive. `deadline` ends the attempts, not the answer.

        Raises ServerError; never repeats a request once its answer has begun. Closing it aborts the request.
        """
        async with aclosing(await self._with_retries(partial(self._open, path, body), deadline)) as response:
            try:
                async for part in self._parts(response):
                    yield part
            except ServerError as error:
                self._pause.record_failure(error)
                raise

    async def close(self) -> None:
        await self._http.aclose()

    @contextmanager
    def blaming_server(self) -> Iterator[None]:
        """Converts an AnswerError while an answer is read to a ServerError."""
        try:
            yield
        except AnswerError as error:
            raise ServerError(f"the server {self.url} sent an invalid answer: {error}") from error

    async def _with_retries(self, attempt_once: Callable[[], Awaitable[_T]], deadline: Deadline | None) -> _T:
        """Repeats an attempt until it succeeds, and returns its result. Raises ServerError."""
        if deadline is None or deadline.remaining_ms > 1000 * _SILENCE_S:
            deadline = Deadline(_DEFAULT_TIMEOUT_MS)
        for remaining_tries in reversed(range(_TRIES)):
            await self._pause.wait(deadline)
            try:
                answer = await attempt_once()
            except ServerError as error:
                self._pause.record_failure(error)
                if error.pause_s is None or not remaining_tries:
                    raise
            else:
                self._pause.reset()
                return answer
        raise AssertionError("the last attempt raises")

    async def _open(self, path: str, body: object) -> httpx2.Response:
        """An answer with status 200, with only its head read. Raises ServerError."""
        method, content = ("GET", None) if body is None else ("POST", msgspec.json.encode(body))
        with self._as_server_error():
            request = self._http.build_request(method, self.url + path, content=content, headers=_JSON)
            response = await self._http.send(request, stream=True)
        if response.status_code == 200:
            return response
        async with aclosing(response):
            body_bytes = b"".join([part async for part in self._parts(response)])
        raise self._refusal(response, body_bytes)

    async def _parts(self, response: httpx2.Response) -> AsyncGenerator[bytes, None]:
        """A body as it arrives. Raises ServerError, also if it is too long."""
        size = 0
        with self._as_server_error():
            async for part in response.aiter_bytes():
                size += len(part)
                if size > _ANSWER_LIMIT_BYTES:
                    raise httpx2.DecodingError(f"its answer has more than {_ANSWER_LIMIT_BYTES} bytes")
                yield part

    @contextmanager
    def _as_server_error(self) -> Iterator[None]:
        """Converts an HTTP failure to a ServerError."""
        try:
            yield
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            if untrusted := _certificate_problem(error):
                raise ServerError(f"infill-ls does not connect to {self.url}: {untrusted}") from error
            raise self._error("cannot be reached", error, pause_s=0.0) from error
        except httpx2.ReadTimeout as error:
            raise self._error(f"has not answered for {_SILENCE_S:.0f} s", error) from error
        except (httpx2.NetworkError, httpx2.RemoteProtocolError) as error:
            raise self._error("closed the connection in the middle of its answer", error, pause_s=0.0) from error
        except httpx2.HTTPError as error:
            raise self._error("does not respond as expected", error) from error

    def _error(self, problem: str, error: Exception, *, pause_s: float | None = None) -> ServerError:
        shown_text = f"the server {self.url} {problem} ({clip_to_one_line(str(error)) or type(error).__name__})"
        return ServerError(f"{shown_text}; check that it is running, or change `{self.role.url}`", pause_s=pause_s)

    def _refusal(self, response: httpx2.Response, content: bytes) -> ServerError:
        """The error for a status other than 200."""
        status = response.status_code
        try:
            body = clip_to_one_line(decode_json(content, _Error).error.message)
        except AnswerError:
            body = ""
        details = f"{status} {clip_to_one_line(response.reason_phrase)}" + (f": {body}" if body else "")
        if status in _BUSY:
            retry_after = response.headers.get("retry-after", "")  # seconds, or a date, which hardly any server sends
            pause_s = float(retry_after) if retry_after.isdecimal() else 0.0
            return ServerError(f"the server {self.url} is too busy ({details}); try again in a moment", status, pause_s)
        if status in (401, 403):
            role = self.role
            cause = f"refused the token: set {role.token_variable}, or write it into the file {role.token_file}"
        elif 300 <= status < 400:
            setting = self.role.url
            cause = f"redirects to another URL, which infill-ls does not follow; set `{setting}` to that URL"
        elif status == 500:
            cause = "failed; see its log, and restart it if its engine has stopped"
        else:
            cause = "refused a request"
            self.on_refused()
        return ServerError(f"the server {self.url} {cause} ({details})", status)


_COMPANY_CERTIFICATE = (
    "if your company signs certificates itself, set SSL_CERT_FILE to the PEM file of its authority in the "
    "environment that starts your editor, and restart the worker"
)


def _certificate_problem(error: BaseException) -> str:
    """What is wrong with a server's certificate, and what to do; empty if `error` has another cause."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message.rstrip('.')}); {_COMPANY_CERTIFICATE}"
        if isinstance(cause, ssl.SSLError) and cause.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            return "it does not speak TLS; check that the port is the one for https, or write http:// instead"
        cause = cause.__cause__ or cause.__context__
    return ""

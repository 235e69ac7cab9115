"""HTTP to one server: sends JSON and receives JSON or a stream. Never contacts another host, and follows no redirect.

Cancelling a request closes its connection, which makes servers abort it. A busy (429, 503) or unreachable server is
asked again after a growing pause, or a longer one that it requests, up to half a minute. All requests share that pause,
with jitter.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from uuid import uuid4

import httpx2

from inference.remote import answers
from inference.remote.address import MODEL, ServerRole
from inference.remote.pause import BusyError, Pause, ServerError, retry_after_s

_T = TypeVar("_T")
_ANSWER_LIMIT_BYTES = 4 << 20
"""Some three times the answer for the widest canvas, of 256 rows with 129 named tokens each; also for a stream."""
_CONNECT_S, _SILENCE_S = 5.0, 120.0
"""The limits for a connection, and for an answer without a deadline: the first one after a start may compile kernels.
"""
_TRIES = 4
_PATIENCE_S = 10.0
"""How long a request without a deadline waits for a server to come back."""
_BUSY = frozenset({429, 502, 503, 504})


class Client:
    """A server's HTTP interface. For one event loop; concurrent requests share kept connections."""

    def __init__(self, url: str, *, token: str = "", is_here: bool = False, role: ServerRole = MODEL) -> None:
        """`url` has no slash at its end. `token` is sent as a bearer token. `is_here`: bypasses any proxy."""
        self.url, self.role = url, role
        headers = {"accept-encoding": "identity", "x-session-id": uuid4().hex}  # which keeps a router on one replica
        self._pause = Pause()
        self._http = httpx2.AsyncClient(
            headers=headers | ({"authorization": f"Bearer {token}"} if token else {}),
            timeout=httpx2.Timeout(_SILENCE_S, connect=_CONNECT_S, pool=None),
            limits=httpx2.Limits(max_connections=64, max_keepalive_connections=16, keepalive_expiry=60.0),
            follow_redirects=False,
            trust_env=url.startswith("https:") and not is_here,  # plain http goes by no proxy
            # trusts whom the system trusts, or the file that SSL_CERT_FILE names (SSL_CERT_DIR: the folder) instead
            verify=httpx2.create_ssl_context(trust_env=True),
        )

    async def get(self, path: str) -> bytes:
        """The body of an answer with status 200. Raises ServerError."""
        return await self._patiently(lambda: self._whole(path, None), None)

    async def post(self, path: str, body: bytes, deadline: float | None = None) -> bytes:
        """The body of an answer. Raises ServerError, and TimeoutError at `deadline` (`time.monotonic()` seconds)."""
        async with asyncio.timeout(None if deadline is None else max(0.0, deadline - time.monotonic())):
            return await self._patiently(lambda: self._whole(path, body), deadline)

    async def stream(self, path: str, body: bytes, deadline: float | None = None) -> AsyncGenerator[bytes, None]:
        """The parts of an answer with status 200 as they arrive. `deadline` ends the attempts, not the answer.

        Raises ServerError; never repeats a request once its answer has begun. Closing it aborts the request.
        """
        response = await self._patiently(lambda: self._opened(path, body), deadline)
        try:
            async for part in self._parts(response):
                yield part
        except BusyError as busy:
            self._pause.failed(busy)
            raise busy.error from busy
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _patiently(self, attempt_once: Callable[[], Awaitable[_T]], deadline: float | None) -> _T:
        """The result of an attempt, repeated as often as needed. Raises ServerError."""
        last = time.monotonic() + _PATIENCE_S if deadline is None else deadline
        for attempt in range(_TRIES):
            await self._wait(last)
            try:
                answer = await attempt_once()
            except BusyError as busy:
                self._pause.failed(busy)
                if attempt == _TRIES - 1:
                    raise busy.error from busy
            else:
                self._pause.over()
                return answer
        raise AssertionError("the last attempt raises")

    async def _wait(self, last: float) -> None:
        """Waits until the server may be asked. Raises ServerError if that is after `last`."""
        while (left := self._pause.until - time.monotonic()) > 0:
            if self._pause.until > last and self._pause.error is not None:
                raise ServerError(str(self._pause.error), self._pause.error.status)
            await asyncio.sleep(self._pause.jittered(left))

    async def _whole(self, path: str, body: bytes | None) -> bytes:
        response = await self._opened(path, body)
        try:
            return b"".join([part async for part in self._parts(response)])
        finally:
            await response.aclose()

    async def _opened(self, path: str, body: bytes | None) -> httpx2.Response:
        """An answer with status 200, with only its head read. Raises ServerError and BusyError."""
        method, headers = ("GET", {}) if body is None else ("POST", {"content-type": "application/json"})
        with self._blamed():
            request = self._http.build_request(method, self.url + path, content=body, headers=headers)
            response = await self._http.send(request, stream=True)
        if response.status_code == 200:
            return response
        try:
            content = b"".join([part async for part in self._parts(response)])
        finally:
            await response.aclose()
        raise self._refusal(response, content)

    async def _parts(self, response: httpx2.Response) -> AsyncGenerator[bytes, None]:
        """A body as it arrives. Raises ServerError, also if it is too long, and BusyError."""
        size = 0
        with self._blamed():
            async for part in response.aiter_bytes():
                size += len(part)
                if size > _ANSWER_LIMIT_BYTES:
                    raise httpx2.DecodingError(f"its answer has more than {_ANSWER_LIMIT_BYTES} bytes")
                yield part

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        """An HTTP failure as a ServerError, or as a BusyError if another attempt may succeed."""
        try:
            yield
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            if untrusted := certificate_problem(error):
                raise ServerError(f"the server {self.url} is not asked: {untrusted}") from error
            raise BusyError(self._error("cannot be reached", error)) from error
        except httpx2.ReadTimeout as error:
            raise self._error(f"has not answered for {_SILENCE_S:.0f} s", error) from error
        except (httpx2.NetworkError, httpx2.RemoteProtocolError) as error:
            raise BusyError(self._error("broke off its answer", error)) from error
        except httpx2.HTTPError as error:
            raise self._error("cannot be asked", error) from error

    def _error(self, what: str, error: Exception) -> ServerError:
        reason = str(error) or type(error).__name__
        return ServerError(f"the server {self.url} {what} ({reason}); see that it runs, or change `{self.role.url}`")

    def _refusal(self, response: httpx2.Response, content: bytes) -> Exception:
        """The meaning of a status other than 200."""
        status, said = response.status_code, answers.error_message(content)
        shown = f"{status} {response.reason_phrase}" + (f": {said}" if said else "")
        if status in _BUSY:
            error = ServerError(f"the server {self.url} is too busy ({shown}); try again in a moment", status)
            return BusyError(error, retry_after_s(response.headers.get("retry-after")))
        if status in (401, 403):
            role = self.role
            what = f"wants another token: set {role.token_variable} or write it into the file {role.token_file}"
        elif 300 <= status < 400:
            where = self.role.url
            what = f"sends us elsewhere, and text goes only where told to; set `{where}` to the URL that it names"
        elif status == 500:
            what = "failed; look at its log, and start it again where its engine has ended"
        else:
            what = "refused a request"
        return ServerError(f"the server {self.url} {what} ({shown})", status)


_COMPANY = (
    "where your company signs certificates itself, set SSL_CERT_FILE to the PEM file of its authority in the "
    "environment that starts your editor, and restart the worker"
)


def certificate_problem(error: BaseException) -> str:
    """What is wrong with a server's certificate, and what to do; empty if `error` has another cause."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({seen.verify_message.rstrip('.')}); {_COMPANY}"
        if isinstance(seen, ssl.SSLError) and seen.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            return "it does not speak TLS; see that the port is the one for https, or write http:// where it is not"
        seen = seen.__cause__ or seen.__context__
    return ""

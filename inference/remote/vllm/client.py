"""HTTP to one server: JSON there and back, for as long as a request may take, and never to anybody else.

Cancelling whoever waits closes the connection, by which vLLM aborts the request. A server that is busy (429, 503) or
out of reach is asked again after a pause that grows, or a longer one that it names itself, up to half a minute; all
requests share that pause, with jitter, so that a hundred key presses do not become a hundred attempts. Redirects are
not followed: the text would go elsewhere.
"""

import asyncio
import random
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from uuid import uuid4

import httpx2

from inference.engine.errors import RequestError
from inference.messages import ErrorCode
from inference.remote import certificates
from inference.remote.vllm import wire

_ANSWER_LIMIT_BYTES = 4 << 20
"""Some three times what the widest canvas takes, of 256 rows with 129 named tokens each."""
_CONNECT_S, _SILENCE_S = 5.0, 120.0
"""How long a connection may take, and an answer without a deadline: the first one after a start may compile kernels."""
_TRIES = 4
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 30.0
_MOST_FAILURES = 7
"""The pause is at its longest then."""
_JITTER_S = 1.0
"""Those who wait for the end of a pause go on within so much of it, so as not to come all at one moment."""
_PATIENCE_S = 10.0
"""How long a request without a deadline waits for a server to come back."""
_BUSY = frozenset({429, 502, 503, 504})


class ServerError(RequestError):
    """The server is to blame; str() says for what, and what to do. `status` is that of its answer, 0 without one."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message, ErrorCode.SERVER)
        self.status = status


class _BusyError(Exception):
    """Worth another attempt. `pause_s` is how long the server wants to be left alone, None where it does not say."""

    def __init__(self, error: ServerError, pause_s: float | None = None) -> None:
        super().__init__(str(error))
        self.error, self.pause_s = error, pause_s


@dataclass
class _Pause:
    """How long nothing is asked, after failures of any request. An answer ends it, and halves the count of failures."""

    failures: int = 0
    until: float = 0.0
    error: ServerError | None = None
    _random: random.Random = field(default_factory=random.Random)

    def failed(self, busy: _BusyError) -> None:
        """Pauses for longer each time, or as long as the server says where that is longer, up to `_LONGEST_PAUSE_S`.

        Failures of the same moment count once.
        """
        if time.monotonic() >= self.until:
            self.failures = min(self.failures + 1, _MOST_FAILURES)
            longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**self.failures)
            self.until = time.monotonic() + longest * self._random.uniform(0.5, 1.0)
        if busy.pause_s is not None:
            self.until = max(self.until, time.monotonic() + min(busy.pause_s, _LONGEST_PAUSE_S))
        self.error = busy.error

    def over(self) -> None:
        """The server answered."""
        self.failures, self.until, self.error = self.failures // 2, 0.0, None

    def jittered(self, left_s: float) -> float:
        """How long one of those who wait sleeps, where so much of the pause is left."""
        return left_s + self._random.uniform(0.0, min(left_s / 2, _JITTER_S))


class Client:
    """A server's HTTP interface. Used on one event loop; requests run side by side on connections that are kept."""

    def __init__(self, url: str, *, token: str = "", is_here: bool = False) -> None:
        """`url` without a slash at its end. `token` is sent as a bearer's. `is_here`: by no proxy."""
        self.url = url
        headers = {"accept-encoding": "identity", "x-session-id": uuid4().hex}  # which keeps a router on one replica
        self._pause = _Pause()
        self._http = httpx2.AsyncClient(
            headers=headers | ({"authorization": f"Bearer {token}"} if token else {}),
            timeout=httpx2.Timeout(_SILENCE_S, connect=_CONNECT_S, pool=None),
            limits=httpx2.Limits(max_connections=64, max_keepalive_connections=16, keepalive_expiry=60.0),
            follow_redirects=False,
            trust_env=url.startswith("https:") and not is_here,  # plain http goes by no proxy
            verify=certificates.context(),
        )

    async def get(self, path: str) -> bytes:
        """The body of an answer of status 200. Raises ServerError."""
        return await self._ask("GET", path, None, None)

    async def post(self, path: str, body: bytes, deadline: float | None = None) -> bytes:
        """The body of an answer of status 200. `deadline` (`time.monotonic()` seconds) ends the attempts.

        Raises ServerError, and TimeoutError at the deadline.
        """
        async with asyncio.timeout(None if deadline is None else max(0.0, deadline - time.monotonic())):
            return await self._ask("POST", path, body, deadline)

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _ask(self, method: str, path: str, body: bytes | None, deadline: float | None) -> bytes:
        last = time.monotonic() + _PATIENCE_S if deadline is None else deadline
        for attempt in range(_TRIES):
            await self._wait(last)
            try:
                answer = await self._once(method, path, body)
            except _BusyError as busy:
                self._pause.failed(busy)
                if attempt == _TRIES - 1:
                    raise busy.error from busy
            else:
                self._pause.over()
                return answer
        raise AssertionError("the last attempt raises")

    async def _wait(self, last: float) -> None:
        """Waits until the server may be asked. Raises ServerError where that is after `last`."""
        while (left := self._pause.until - time.monotonic()) > 0:
            if self._pause.until > last and self._pause.error is not None:
                raise ServerError(str(self._pause.error), self._pause.error.status)
            await asyncio.sleep(self._pause.jittered(left))

    async def _once(self, method: str, path: str, body: bytes | None) -> bytes:
        headers = {} if body is None else {"content-type": "application/json"}
        try:
            async with self._http.stream(method, self.url + path, content=body, headers=headers) as response:
                content = await _read(response)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            if untrusted := certificates.problem(error):
                raise ServerError(f"the server {self.url} is not asked: {untrusted}") from error
            raise _BusyError(self._error("cannot be reached", error)) from error
        except httpx2.ReadTimeout as error:
            raise self._error(f"has not answered for {_SILENCE_S:.0f} s", error) from error
        except (httpx2.NetworkError, httpx2.RemoteProtocolError) as error:
            raise _BusyError(self._error("broke off its answer", error)) from error
        except httpx2.HTTPError as error:
            raise self._error("cannot be asked", error) from error
        if response.status_code == 200:
            return content
        raise self._refusal(response, content)

    def _error(self, what: str, error: Exception) -> ServerError:
        reason = str(error) or type(error).__name__
        return ServerError(f"the server {self.url} {what} ({reason}); see that it runs, or change `model`")

    def _refusal(self, response: httpx2.Response, content: bytes) -> Exception:
        """What a status other than 200 means."""
        status, said = response.status_code, wire.error_message(content)
        shown = f"{status} {response.reason_phrase}" + (f": {said}" if said else "")
        if status in _BUSY:
            error = ServerError(f"the server {self.url} is too busy ({shown}); try again in a moment", status)
            return _BusyError(error, _retry_after_s(response.headers.get("retry-after")))
        if status in (401, 403):
            what = "wants another token: set INFILL_LS_SERVER_TOKEN or write it into the file server-token"
        elif 300 <= status < 400:
            what = "sends us elsewhere, and text goes only where it was told to; set `model` to the URL that it names"
        elif status == 500:
            what = "failed; look at its log, and start it again where its engine has ended"
        else:
            what = "refused a request"
        return ServerError(f"the server {self.url} {what} ({shown})", status)


async def _read(response: httpx2.Response) -> bytes:
    """All of a body. Raises httpx2.DecodingError where it is too long."""
    parts, size = [], 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > _ANSWER_LIMIT_BYTES:
            raise httpx2.DecodingError(f"its answer has more than {_ANSWER_LIMIT_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


def _retry_after_s(value: str | None) -> float | None:
    """The seconds of a Retry-After header, which has a number of them or a date; None where it has neither."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None

"""Passes each message of a client to its handler, and gives each request exactly one reply. Knows no method's meaning.

Of an error neither client nor log gets a document's text.
"""

import asyncio
import inspect
import json
import logging
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from typing import Annotated, Any, TypeGuard

import msgspec
from cattrs import Converter, transform_error
from lsprotocol import types
from lsprotocol.converters import get_converter
from lsprotocol.types import ErrorCodes, LSPErrorCodes

from lsp_server.worker.failure import traceback_of

log = logging.getLogger(__name__)
Id = int | str
Handler = Callable[[Any], Any]
"""Gets raw params, and returns a result or an awaitable of it. Raises ReplyError if the params cannot be read."""
Write = Callable[[bytes], None]
"""Sends one message. Never blocks and never raises; does nothing once the client is gone."""
NO_VERSION = -1
"""The version of a document whose client sends null or none."""
_VERSIONED = (
    types.TextDocumentItem,
    types.VersionedTextDocumentIdentifier,
    types.NotebookDocument,
    types.VersionedNotebookDocumentIdentifier,
)
_numbers = count(1)


class ReplyError(Exception):
    """The error that a request is answered with, by us or by the client. str() tells what happened and what to do."""

    def __init__(self, message: str, code: int = LSPErrorCodes.RequestFailed) -> None:
        super().__init__(message)
        self.code = int(code)


class RawPosition(msgspec.Struct, frozen=True):
    line: Annotated[int, msgspec.Meta(ge=0)]
    character: Annotated[int, msgspec.Meta(ge=0)]


class RawRange(msgspec.Struct, frozen=True):
    start: RawPosition
    end: RawPosition


class RawDocument(msgspec.Struct, frozen=True):
    uri: str
    version: int | None = None


def read_raw(what: str, value: Any, kind: type[Any]) -> Any:
    """Raw JSON as a `kind`. Raises ReplyError, which names the problem with `what`, such as `params for a/method`."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        reason = str(error).replace("`", "")
    except UnicodeEncodeError:
        reason = "half a surrogate pair"
    raise ReplyError(f"invalid {what}: {reason}", ErrorCodes.InvalidParams)


def _lenient_converter() -> Converter:
    """lsprotocol's, which also decodes documents without a version, which some clients send."""

    def lenient(structure: Callable[[Any, Any], Any], value: Any, kind: Any) -> Any:
        lacks = isinstance(value, dict) and value.get("version") is None
        return structure({**value, "version": NO_VERSION} if lacks else value, kind)

    converter = get_converter()
    for kind in _VERSIONED:
        converter.register_structure_hook(kind, partial(lenient, converter.get_structure_hook(kind)))
    return converter


CONVERTER = _lenient_converter()


def unreadable(method: str, error: Exception) -> ReplyError:
    """Says which fields of a method's params cannot be decoded, but never their values."""
    try:
        lines: Iterable[str] = transform_error(error, path="params")
    except Exception:  # only the wording is lost: the client must get its answer
        lines = [type(error).__name__]
    return ReplyError(f"invalid params for {method}: {'; '.join(lines)[:500]}", ErrorCodes.InvalidParams)


def error_of(error: BaseException, method: str) -> ReplyError:
    """What the client learns of an error: nothing of its text, unless that is made for it."""
    if isinstance(error, ReplyError):
        return error
    if isinstance(error, asyncio.CancelledError):
        return ReplyError("cancelled", LSPErrorCodes.RequestCancelled)
    message = f"internal error in {method} ({type(error).__name__}); the server's log says where"
    return ReplyError(message, ErrorCodes.InternalError)


class Conversation:
    """The messages from and to one client. Calls `handlers` on arrival, by method."""

    is_initialized = False
    is_shut_down = False
    """Whether the client has sent `shutdown`."""
    has_ended = False
    """Whether the client has said goodbye."""

    def __init__(self, write: Write) -> None:
        self.handlers: dict[str, Handler] = {}
        self._write = write
        self._running: dict[Id, asyncio.Future[Any]] = {}
        self._asked: dict[Id, asyncio.Future[Any]] = {}
        """Our own requests, until the client answers."""

    async def leave(self) -> None:
        """The client is gone: stops its requests."""
        await self.drain(0)

    def lose(self, method: str, params: Any) -> None:
        """A notification had unreadable params."""

    @property
    def exit_status(self) -> int:
        """That of a process that serves this client alone."""
        return 0 if self.is_shut_down else 1

    def notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    async def request(self, method: str, params: Any) -> Any:
        """The client's answer, raw. Raises ReplyError with the client's words if it refuses."""
        key = f"infill-ls/{next(_numbers)}"
        answer = self._asked[key] = asyncio.get_running_loop().create_future()
        self._send({"id": key, "method": method, "params": params})
        try:
            return await answer
        finally:
            del self._asked[key]

    def receive(self, body: bytes) -> None:
        """Handles the bytes of one message. Never raises. What it starts begins in the next turn of the event loop."""
        try:
            message = json.loads(body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            self._reply_error(None, ReplyError("not JSON in UTF-8, or nested too deeply", ErrorCodes.ParseError))
            if b'/didChange"' in body:  # whose document cannot be known
                self.lose(types.TEXT_DOCUMENT_DID_CHANGE, None)
            return
        fields = message if isinstance(message, dict) else {}
        key = fields.get("id")
        method = fields.get("method")
        if not isinstance(method, str):
            self._take_other(fields)
        elif key is None:
            self._notification(method, fields.get("params"))
        elif not is_id(key):
            self._reply_error(None, ReplyError("the id is neither an integer nor a text", ErrorCodes.InvalidRequest))
        else:
            self._request(key, method, fields.get("params"))

    async def drain(self, limit_s: float) -> None:
        """Cancels every request but the current one, and answers each within `limit_s`."""
        tasks = {key: task for key, task in self._running.items() if task is not asyncio.current_task()}
        for task in tasks.values():
            task.cancel()
        if tasks:
            await asyncio.wait(tasks.values(), timeout=limit_s)
        await asyncio.sleep(0)  # the replies are sent by callbacks
        for key, task in tasks.items():
            self._finish(key, "", task)

    def _request(self, key: Id, method: str, params: Any) -> None:
        if refused := self._refusal(key, method):
            self._reply_error(key, refused)
            return
        if method == types.SHUTDOWN:
            self.is_shut_down = True
        self._call(key, method, params)

    def _refusal(self, key: Id, method: str) -> ReplyError | None:
        """Why a request is not handled; None if it is."""
        if key in self._running:  # which continues, and gets its own reply
            return ReplyError("a request with this id is running", ErrorCodes.InvalidRequest)
        if self.is_shut_down:
            return ReplyError("the server is shutting down", ErrorCodes.InvalidRequest)
        if self.is_initialized and method == types.INITIALIZE:
            return ReplyError("already initialized", ErrorCodes.InvalidRequest)
        if not self.is_initialized and method != types.INITIALIZE:
            return ReplyError("send initialize first", ErrorCodes.ServerNotInitialized)
        known = method in self.handlers
        return None if known else ReplyError(f"no such method: {method}", ErrorCodes.MethodNotFound)

    def _notification(self, method: str, params: Any) -> None:
        if method == types.CANCEL_REQUEST:
            key = params.get("id") if isinstance(params, dict) else None
            if is_id(key) and (task := self._running.get(key)):
                task.cancel()
        elif types.METHOD_TO_TYPES.get(method, (None, None))[1] is not None:
            log.info("%s was sent as a notification and is ignored: it is a request and needs an id", method)
        elif method == types.EXIT:
            self.has_ended = True
        elif self.is_initialized and not self.is_shut_down and method in self.handlers:
            self._call(None, method, params)

    def _call(self, key: Id | None, method: str, params: Any) -> None:
        """Calls the handler, and replies to a request; a notification has no key."""
        try:
            outcome = self.handlers[method](params)
        except Exception as error:
            self._fail(key, method, error)
            if key is None and isinstance(error, ReplyError):
                self.lose(method, params)
            return
        if method == types.INITIALIZE:
            self.is_initialized = True
        if inspect.isawaitable(outcome):
            task = asyncio.ensure_future(outcome)
            if key is not None:
                self._running[key] = task
            task.add_done_callback(partial(self._finish, key, method))
        elif key is not None:
            self._reply(key, method, outcome)

    def _take_other(self, message: dict[str, Any]) -> None:
        """The client's answer to one of our requests."""
        key = message.get("id")
        error = message.get("error")
        if "method" in message or not ("result" in message or "error" in message):
            is_request = "method" in message and is_id(key)  # otherwise the id may be that of a request of ours
            self._reply_error(key if is_request else None, ReplyError("not JSON-RPC", ErrorCodes.InvalidRequest))
        elif not is_id(key) or (asked := self._asked.get(key)) is None or asked.done():
            log.info("the client sent an answer to nothing")  # also to a message that it could not read
        elif error is not None:
            asked.set_exception(ReplyError(str(error.get("message") if isinstance(error, dict) else error)))
        else:
            asked.set_result(message.get("result"))

    def _finish(self, key: Id | None, method: str, task: asyncio.Future[Any]) -> None:
        """A handler has ended, or was abandoned: replies to its request."""
        if key is not None and self._running.get(key) is not task:
            return
        if key is not None:
            del self._running[key]
        if not task.done() or task.cancelled():
            self._fail(key, method, asyncio.CancelledError())
        elif error := task.exception():
            self._fail(key, method, error)
        elif key is not None:
            self._reply(key, method, task.result())

    def _reply(self, key: Id, method: str, result: Any) -> None:
        try:
            self._send({"id": key, "result": result})
        except Exception as error:
            self._fail(key, method, error)

    def _fail(self, key: Id | None, method: str, error: BaseException) -> None:
        """Logs an error, and replies with it to a request."""
        told = error_of(error, method)
        if told.code == ErrorCodes.InternalError:
            log.error("%s failed: %s", method, traceback_of(error))
        else:
            log.info("%s: %s", method, told)
        if key is not None:
            self._reply_error(key, told)

    def _reply_error(self, key: Id | None, error: ReplyError) -> None:
        self._send({"id": key, "error": {"code": error.code, "message": str(error)}})

    def _send(self, message: dict[str, Any]) -> None:
        raw = CONVERTER.unstructure({"jsonrpc": "2.0", **message})
        self._write(json.dumps(raw, separators=(",", ":"), allow_nan=False).encode())


def is_id(value: Any) -> TypeGuard[Id]:
    """Whether this is a request id; only Python treats True and False as numbers."""
    return isinstance(value, int | str) and not isinstance(value, bool)


def _refuse_constant(name: str) -> None:
    """Python would read NaN and Infinity and write them back, which no client could read."""
    raise ValueError(name)

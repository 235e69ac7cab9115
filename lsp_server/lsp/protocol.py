"""Passes each message to its handler, and gives each request exactly one reply. Knows no method's meaning.

pygls only sends *our* requests: it leaves one with undecodable params unanswered, and sends tracebacks to clients.
Neither client nor log gets a document's text from an error.
"""

import asyncio
import inspect
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from typing import Annotated, Any, TypeGuard

import msgspec
from cattrs import Converter, transform_error
from lsprotocol import types
from lsprotocol.types import INITIALIZE, ErrorCodes, LSPErrorCodes, ResponseError
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

from lsp_server.worker.failure import traceback_without_message


class ReplyError(Exception):
    """The error that a handler replies with. str() tells the user what happened and what to do."""

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


def decode_raw(subject: str, value: Any, kind: type[Any]) -> Any:
    """Raw JSON as a `kind`. Raises ReplyError, which names the `subject`, such as `params for a/method`."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        reason = str(error).replace("`", "")
    except UnicodeEncodeError:
        reason = "half a surrogate pair"
    raise ReplyError(f"invalid {subject}: {reason}", ErrorCodes.InvalidParams)


class Phase(Enum):
    """The state of the connection; requests before `initialize` and after `shutdown` are refused."""

    NEW = auto()
    RUNNING = auto()
    SHUT_DOWN = auto()


def error_for_client(error: BaseException, method: str) -> ReplyError:
    """The error for the client, with a message of its own unless the error is meant for the client."""
    if isinstance(error, ReplyError):
        return error
    if isinstance(error, asyncio.CancelledError):
        return ReplyError("cancelled", LSPErrorCodes.RequestCancelled)
    message = f"internal error in {method} ({type(error).__name__}); see the server's log"
    return ReplyError(message, ErrorCodes.InternalError)


def _field_paths(error: Exception) -> str:
    try:
        lines: Iterable[str] = transform_error(error, path="params")
    except Exception:  # only the wording is lost: the client must get its answer
        return type(error).__name__
    return "; ".join(lines)[:500]


log = logging.getLogger(__name__)
RequestId = int | str
Handler = Callable[[Any], Any]
NO_VERSION = -1
"""The version of a document whose client sends null or none."""
_VERSIONED = (
    types.TextDocumentItem,
    types.VersionedTextDocumentIdentifier,
    types.NotebookDocument,
    types.VersionedNotebookDocumentIdentifier,
)


def _accept_no_version(converter: Converter) -> None:
    """Has documents without a version decoded, which the protocol does not allow and some clients send."""

    def lenient(structure: Callable[[Any, Any], Any], value: Any, kind: Any) -> Any:
        lacks = isinstance(value, dict) and value.get("version") is None
        return structure({**value, "version": NO_VERSION} if lacks else value, kind)

    for kind in _VERSIONED:
        converter.register_structure_hook(kind, partial(lenient, converter.get_structure_hook(kind)))


class InfillProtocol(LanguageServerProtocol):
    """Calls `handlers` on arrival, by method; they return a result, or an awaitable of it."""

    phase = Phase.NEW

    def __init__(self, server: LanguageServer, converter: Converter) -> None:
        super().__init__(server, converter)
        _accept_no_version(converter)
        self.handlers: dict[str, Handler] = {}
        self.on_unreadable: Callable[[str, Any], None] = lambda method, params: None
        """Called for each notification with undecodable params."""
        self.write: Callable[[bytes], None] = lambda body: None
        self.leave: Callable[[], Awaitable[None]] = lambda: self.drain(0)
        """Called once the client is gone: stops its requests."""
        self.ended = asyncio.Event()
        """Set when the client has said goodbye."""
        self._running: dict[RequestId, asyncio.Future[Any]] = {}

    @property
    def exit_status(self) -> int:
        """The exit status of a process that serves only this client: 0 once it has sent `shutdown`."""
        return 0 if self.phase is Phase.SHUT_DOWN else 1

    def receive(self, body: bytes) -> None:
        """Handles the bytes of one message. Never raises. What it starts begins in the next turn of the event loop."""
        try:
            message = json.loads(body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            reason = ReplyError("not JSON in UTF-8, or nested too deeply", ErrorCodes.ParseError)
            self._reply_error(salvage_request_id(body), reason)
            if b'/didChange"' in body:
                self.on_unreadable(types.TEXT_DOCUMENT_DID_CHANGE, None)
            return
        fields = message if isinstance(message, dict) else {}
        key = fields.get("id")
        method = fields.get("method")
        if not isinstance(method, str):
            self._receive_reply(fields)
        elif key is None:
            self._notification(method, fields.get("params"))
        elif not is_request_id(key):
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

    def _request(self, key: RequestId, method: str, params: Any) -> None:
        if refused := self._refusal(key, method):
            self._reply_error(key, refused)
            return
        if method == types.SHUTDOWN:
            self.phase = Phase.SHUT_DOWN
        try:
            outcome = self._call_handler(method, params)
        except Exception as error:
            self._fail(key, method, error)
            return
        if inspect.isawaitable(outcome):
            task = self._running[key] = asyncio.ensure_future(outcome)
            task.add_done_callback(partial(self._finish, key, method))
        else:
            self._reply(key, method, outcome)
        if method == types.INITIALIZE:
            self.phase = Phase.RUNNING

    def _refusal(self, key: RequestId, method: str) -> ReplyError | None:
        """Why a request is not handled; None if it is."""
        if key in self._running:  # which continues, and gets its own reply
            return ReplyError("a request with this id is running", ErrorCodes.InvalidRequest)
        if method == INITIALIZE:
            return None if self.phase is Phase.NEW else ReplyError("already initialized", ErrorCodes.InvalidRequest)
        if self.phase is Phase.NEW:
            return ReplyError("send initialize first", ErrorCodes.ServerNotInitialized)
        if self.phase is Phase.SHUT_DOWN:
            return ReplyError("the server is shutting down", ErrorCodes.InvalidRequest)
        is_known = method in self.handlers
        return None if is_known else ReplyError(f"no such method: {method}", ErrorCodes.MethodNotFound)

    def _notification(self, method: str, params: Any) -> None:
        if method == types.CANCEL_REQUEST:
            key = params.get("id") if isinstance(params, dict) else None
            if is_request_id(key) and (task := self._running.get(key)):
                task.cancel()
        elif types.METHOD_TO_TYPES.get(method, (None, None))[1] is not None:
            log.info("%s was sent as a notification and is ignored: it is a request and needs an id", method)
        elif method == types.EXIT:
            self.ended.set()
        elif self.phase is Phase.RUNNING and method in self.handlers:
            try:
                outcome = self._call_handler(method, params)
            except Exception as error:
                _log(method, error)
                if isinstance(error, ReplyError):
                    self.on_unreadable(method, params)
                return
            if inspect.isawaitable(outcome):
                asyncio.ensure_future(outcome).add_done_callback(partial(_log_failure, method))

    def _receive_reply(self, message: dict[str, Any]) -> None:
        """An answer to one of our requests; the request fails if the answer cannot be parsed."""
        key = message.get("id")
        if "method" in message or not ("result" in message or "error" in message):
            is_request = "method" in message and is_request_id(key)  # otherwise the id may be that of a request of ours
            self._reply_error(key if is_request else None, ReplyError("not JSON-RPC", ErrorCodes.InvalidRequest))
            return
        if not is_request_id(key):  # a client also answers this way to an unreadable message
            log.warning("the client sent an answer to nothing")
            return
        try:
            structured = self.structure_message(message)
        except Exception:
            error = ResponseError(int(ErrorCodes.InvalidParams), "the client's answer could not be understood")
            structured = types.ResponseErrorMessage(id=key, error=error)
        try:
            self.handle_message(structured)
        except Exception as error:
            log.warning("an answer of the client could not be used: %s", traceback_without_message(error))

    def _call_handler(self, method: str, params: Any) -> Any | Awaitable[Any]:
        """What the handler returns. It gets params as lsprotocol's type for `method`, or raw if there is none; also
        for `initialize`, which may have newer capabilities. Raises ReplyError, and whatever the handler raises.
        """
        kind: Any = types.METHOD_TO_TYPES.get(method, (None, None, None, None))[2]
        if kind is not None and method != types.INITIALIZE:
            try:
                params = self._converter.structure(params, kind)
            except Exception as error:
                wrong = f"invalid params for {method}: {_field_paths(error)}"  # the fields, but never their values
                raise ReplyError(wrong, ErrorCodes.InvalidParams) from None
        return self.handlers[method](params)

    def _finish(self, key: RequestId, method: str, task: asyncio.Future[Any]) -> None:
        """The reply to a request whose handler has ended or was abandoned."""
        if self._running.get(key) is not task:
            return
        del self._running[key]
        if not task.done() or task.cancelled():
            self._reply_error(key, error_for_client(asyncio.CancelledError(), method))
        elif error := task.exception():
            self._fail(key, method, error)
        else:
            self._reply(key, method, task.result())

    def _reply(self, key: RequestId, method: str, result: Any) -> None:
        try:
            self._send_data({"jsonrpc": self.VERSION, "id": key, "result": result})
        except Exception as error:
            self._fail(key, method, error)

    def _fail(self, key: RequestId, method: str, error: BaseException) -> None:
        _log(method, error)
        self._reply_error(key, error_for_client(error, method))

    def _reply_error(self, key: RequestId | None, error: ReplyError) -> None:
        details = {"code": error.code, "message": str(error)}
        self._send_data({"jsonrpc": self.VERSION, "id": key, "error": details})

    def _send_data(self, data: Any) -> None:
        """Sends a message. pygls calls this for its requests and notifications."""
        body = json.dumps(self._converter.unstructure(data), separators=(",", ":"), allow_nan=False).encode()
        self.write(body)


_WORD = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[][{}:,]|[^][{}:,"\s]++|"', re.DOTALL)
_INNER_WORD = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[][{}]|"', re.DOTALL)
"""A string or a bracket. A quotation mark by itself begins a string without an end."""
_MAX_WORDS = 250_000
"""Reading this many takes a quarter of a second."""
_MAX_ID_BYTES = 1_000
_MAX_SALVAGED_BYTES = 16 * 1024 * 1024


def salvage_request_id(body: bytes) -> RequestId | None:
    """The id of a request that cannot be read, if it is certain, else None. In linear time, without recursion."""
    keys, values = set[bytes](), dict[bytes, bytes]()
    key = value = b""
    depth = position = 0
    for _ in range(_MAX_WORDS if body.lstrip().startswith(b"{") else 0):
        match = (_WORD if depth <= 1 else _INNER_WORD).search(body, position, _MAX_SALVAGED_BYTES)
        if match is None or match[0] == b'"':
            break
        word, position = match[0], match.end()
        depth += (word in b"{[") - (word in b"}]") if len(word) == 1 else 0
        if word == b":" and depth == 1:
            key, value = value, b""
            keys.add(key)
        elif (word == b"," and depth == 1) or depth == 0:
            values[key] = value  # only now it is whole
            if depth == 0:
                break
        elif depth == 1:
            value = word
    is_request = not keys.isdisjoint((b'"method"', b'"params"')) and keys.isdisjoint((b'"result"', b'"error"'))
    raw = values.get(b'"id"', b"")
    with suppress(ValueError):
        request_id = json.loads(raw) if is_request and len(raw) <= _MAX_ID_BYTES else None
        return request_id if is_request_id(request_id) else None
    return None


def is_request_id(value: Any) -> TypeGuard[RequestId]:
    """Whether this is a request id; only Python treats True and False as numbers."""
    return isinstance(value, int | str) and not isinstance(value, bool)


def _refuse_constant(name: str) -> None:
    """Python would read NaN and Infinity and write them back, which no client could read."""
    raise ValueError(name)


def _log_failure(method: str, task: asyncio.Future[Any]) -> None:
    if not task.cancelled() and (error := task.exception()):
        _log(method, error)


def _log(method: str, error: BaseException) -> None:
    if error_for_client(error, method).code == ErrorCodes.InternalError:
        log.error("%s failed: %s", method, traceback_without_message(error))
    else:
        log.info("%s: %s", method, error)

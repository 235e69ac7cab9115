"""Passes each message to its handler, and gives each request exactly one reply. Knows no method's meaning.

pygls only sends *our* requests: it leaves one with undecodable params unanswered, and sends tracebacks to clients.
"""

import asyncio
import inspect
import json
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from cattrs import Converter
from lsprotocol import types
from lsprotocol.types import ErrorCodes, ResponseError
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

from lsp_server.lsp.json_rpc import TOO_DEEP, Id, excess_in, is_id, is_notification, is_response, messages_in, salvaged
from lsp_server.lsp.replies import Phase, ReplyError, error_of, invalid_params, refusal
from lsp_server.worker.failure import traceback_of

log = logging.getLogger(__name__)
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
    """Calls the features registered on the server on arrival; they return a result, or an awaitable of it."""

    def __init__(self, server: LanguageServer, converter: Converter) -> None:
        super().__init__(server, converter)
        _accept_no_version(converter)
        self.fm.builtin_features.clear()
        self.phase = Phase.NEW
        self.on_unreadable: Callable[[str, Any], None] = lambda method, params: None
        """Called for each notification with undecodable params."""
        self._running: dict[Id, asyncio.Future[Any]] = {}

    def receive(self, body: bytes) -> None:
        """Handles the bytes of one message, or of a batch. Never raises."""
        try:
            messages = messages_in(body)
        except RecursionError:
            for message in salvaged(body):
                self._refuse_excess(message, TOO_DEEP)
        except ValueError:
            for message in salvaged(body):
                self._refuse_unreadable(message)
        else:
            for message in messages:
                if excess := excess_in(message):
                    self._refuse_excess(message, excess)
                else:
                    self._take(message)

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

    def _take(self, message: Any) -> None:
        if not isinstance(message, dict):
            self._reply_error(None, refusal(ErrorCodes.InvalidRequest, "not a JSON-RPC message"))
        elif "method" in message:
            self._dispatch(message.get("id"), message["method"], message.get("params"))
        elif is_response(message):
            self._response(message)
        else:
            self._reply_error(None, refusal(ErrorCodes.InvalidRequest, "neither a request nor an answer"))

    def _refuse_unreadable(self, message: dict[str, Any]) -> None:
        error = refusal(ErrorCodes.ParseError, "not JSON in UTF-8")
        if is_notification(message):  # or a request whose id could not be found
            self._reply_error(None, error)
        self._refuse(message, error)

    def _refuse_excess(self, message: Any, excess: str) -> None:
        method = message.get("method") if isinstance(message, dict) else None
        if isinstance(method, str):
            self._refuse(message, refusal(ErrorCodes.InvalidParams, f"invalid params for {method}: {excess}"))
        else:
            self._refuse(message, refusal(ErrorCodes.InvalidRequest, f"not a JSON-RPC message: {excess}"))

    def _refuse(self, message: Any, error: ResponseError) -> None:
        """Answers for an undeliverable message: tells the client, our waiting request or the document."""
        key = message.get("id") if isinstance(message, dict) else None
        if is_notification(message):
            log.info("%s: %s", message["method"], error.message)
            self.on_unreadable(message["method"], message.get("params"))
        elif is_response(message):
            self._settle(types.ResponseErrorMessage(id=key if isinstance(key, int | str) else None, error=error))
        else:
            self._reply_error(key if is_id(key) else None, error)

    def _dispatch(self, key: Any, method: Any, params: Any) -> None:
        if isinstance(method, str) and is_id(key):
            self._request(key, method, params)
        elif isinstance(method, str) and key is None:
            self._notification(method, params)
        else:
            valid = key if is_id(key) else None
            self._reply_error(valid, refusal(ErrorCodes.InvalidRequest, "not a JSON-RPC request"))

    def _request(self, key: Id, method: str, params: Any) -> None:
        if problem := self._why_not_now(key, method):
            self._reply_error(key, problem)
            return
        if method == types.SHUTDOWN:
            self.phase = Phase.SHUT_DOWN
        try:
            outcome = self._call(method, params)
        except Exception as error:
            self._fail(key, method, error)
            return
        if inspect.isawaitable(outcome):
            task = asyncio.ensure_future(outcome)
            self._running[key] = task
            task.add_done_callback(partial(self._finish, key, method))
        else:
            self._reply(key, method, outcome)
        if method == types.INITIALIZE:
            self.phase = Phase.RUNNING

    def _notification(self, method: str, params: Any) -> None:
        if method == types.CANCEL_REQUEST:
            self._cancel(params)
        elif types.METHOD_TO_TYPES.get(method, (None, None))[1] is not None:
            log.info("%s was sent as a notification and is ignored: it is a request and needs an id", method)
        elif method == types.EXIT or (self.phase is Phase.RUNNING and method in self.fm.features):
            try:
                outcome = self._call(method, params)
            except Exception as error:
                self._log(method, error)
                if isinstance(error, ReplyError):
                    self.on_unreadable(method, params)
                return
            if inspect.isawaitable(outcome):
                asyncio.ensure_future(outcome).add_done_callback(partial(self._log_failure, method))

    def _response(self, message: dict[str, Any]) -> None:
        """An answer to one of our requests; the request fails if the answer cannot be parsed."""
        if not is_id(message.get("id")):  # a client also answers this way to an unreadable message
            log.warning("the client sent an answer to nothing")
            return
        try:
            structured = self.structure_message(message)
        except Exception:
            error = refusal(ErrorCodes.InvalidParams, "the client's answer could not be understood")
            structured = types.ResponseErrorMessage(id=message["id"], error=error)
        self._settle(structured)

    def _settle(self, answer: Any) -> None:
        """Passes the client's answer to our waiting request."""
        try:
            self.handle_message(answer)
        except Exception as error:
            log.warning("an answer of the client could not be used: %s", traceback_of(error))

    def _cancel(self, params: Any) -> None:
        key = params.get("id") if isinstance(params, dict) else None
        if is_id(key) and (task := self._running.get(key)):
            task.cancel()

    def _why_not_now(self, key: Id, method: str) -> ResponseError | None:
        if key in self._running:  # which continues, and gets its own reply
            return refusal(ErrorCodes.InvalidRequest, "a request with this id is running")
        if problem := self.phase.refuses(method):
            return problem
        return None if method in self.fm.features else refusal(ErrorCodes.MethodNotFound, f"no such method: {method}")

    def _call(self, method: str, params: Any) -> Any | Awaitable[Any]:
        return self.fm.features[method](self._decoded(method, params))

    def _decoded(self, method: str, params: Any) -> Any:
        """Params as lsprotocol's type for `method`; raw for `initialize`, which may have newer capabilities."""
        kind: Any = types.METHOD_TO_TYPES.get(method, (None, None, None, None))[2]
        if kind is None or method == types.INITIALIZE:
            return params
        try:
            return self._converter.structure(params, kind)
        except Exception as error:
            raise invalid_params(method, error) from None

    def _finish(self, key: Id, method: str, task: asyncio.Future[Any]) -> None:
        """The reply to a request whose handler has ended or was abandoned."""
        if self._running.get(key) is not task:
            return
        del self._running[key]
        if not task.done() or task.cancelled():
            self._reply_error(key, error_of(asyncio.CancelledError(), method))
        elif error := task.exception():
            self._fail(key, method, error)
        else:
            self._reply(key, method, task.result())

    def _reply(self, key: Id, method: str, result: Any) -> None:
        try:
            body = self._encoded({"jsonrpc": self.VERSION, "id": key, "result": result})
        except Exception as error:
            self._fail(key, method, error)
        else:
            self._write(body)

    def _fail(self, key: Id, method: str, error: BaseException) -> None:
        self._log(method, error)
        self._reply_error(key, error_of(error, method))

    def _reply_error(self, key: Id | None, error: ResponseError) -> None:
        self._send_data({"jsonrpc": self.VERSION, "id": key, "error": error})

    def _send_data(self, data: Any) -> None:
        """Sends a message. pygls calls this for its requests and notifications."""
        self._write(self._encoded(data))

    def _encoded(self, data: Any) -> bytes:
        return json.dumps(self._converter.unstructure(data), separators=(",", ":")).encode()

    def _write(self, body: bytes) -> None:
        if self.writer is not None:
            self.writer.write(body)

    def _log_failure(self, method: str, task: asyncio.Future[Any]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self._log(method, error)

    def _log(self, method: str, error: BaseException) -> None:
        if error_of(error, method).code == ErrorCodes.InternalError:
            log.error("%s failed: %s", method, traceback_of(error))
        else:
            log.info("%s: %s", method, error)

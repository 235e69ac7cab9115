"""The error replies to failed requests. Neither client nor log gets a document's text in one."""

import asyncio
from collections.abc import Iterable
from enum import Enum, auto
from typing import Annotated, Any

import msgspec
from cattrs import transform_error
from lsprotocol.types import INITIALIZE, ErrorCodes, LSPErrorCodes, ResponseError


class ReplyError(Exception):
    """The error that a handler replies with. str() tells the user what happened and what to do."""

    def __init__(self, message: str, code: int = LSPErrorCodes.RequestFailed) -> None:
        super().__init__(message)
        self.code = int(code)


def invalid_params(method: str, error: Exception) -> ReplyError:
    """The reply to params that do not fit `method`: it names the fields, but never their values."""
    return ReplyError(f"invalid params for {method}: {_places(error)}", ErrorCodes.InvalidParams)


class RawPosition(msgspec.Struct, frozen=True):
    """A position in raw JSON."""

    line: Annotated[int, msgspec.Meta(ge=0)]
    character: Annotated[int, msgspec.Meta(ge=0)]


class RawDocument(msgspec.Struct, frozen=True):
    """A document in raw JSON."""

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


def refusal(code: ErrorCodes, message: str) -> ResponseError:
    """An error of the protocol itself."""
    return ResponseError(code=int(code), message=message)


class Phase(Enum):
    """The state of the connection; requests before `initialize` and after `shutdown` are refused."""

    NEW = auto()
    RUNNING = auto()
    SHUT_DOWN = auto()

    def refuses(self, method: str) -> ResponseError | None:
        """The reply to a request that may not come now."""
        if method == INITIALIZE:
            return None if self is Phase.NEW else refusal(ErrorCodes.InvalidRequest, "already initialized")
        if self is Phase.NEW:
            return refusal(ErrorCodes.ServerNotInitialized, "send initialize first")
        return refusal(ErrorCodes.InvalidRequest, "the server is shutting down") if self is Phase.SHUT_DOWN else None


def error_of(error: BaseException, method: str) -> ResponseError:
    """The reply to a request whose handler raised `error`."""
    if isinstance(error, asyncio.CancelledError):
        return ResponseError(code=int(LSPErrorCodes.RequestCancelled), message="cancelled")
    if isinstance(error, ReplyError):
        return ResponseError(code=error.code, message=str(error))
    message = f"internal error in {method} ({type(error).__name__}); the server's log says where"
    return ResponseError(code=int(ErrorCodes.InternalError), message=message)


def _places(error: Exception) -> str:
    try:
        lines: Iterable[str] = transform_error(error, path="params")
    except Exception:  # only the wording is lost: the client must get its answer
        return type(error).__name__
    return "; ".join(lines)[:500]

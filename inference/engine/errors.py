"""Errors of a request, worded for the user."""

from inference.messages import ErrorCode

CANNOT_JUDGE_MESSAGE = "this model cannot say which places no longer fit"
FILLS_NOTHING_MESSAGE = "this is an edit model, which fills no holes; name another as `model`"


class RequestError(Exception):
    """A request cannot be answered. The message says why; the client gets `code`."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.BAD_REQUEST) -> None:
        super().__init__(message)
        self.code = code

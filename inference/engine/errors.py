"""What can go wrong with a request, in words fit for the user."""

from inference.messages import ErrorCode

CANNOT_SCORE = "this model cannot say how likely a text is"


class RequestError(Exception):
    """A request cannot be answered. The message says why; `code` is what the client is told."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.BAD_REQUEST) -> None:
        super().__init__(message)
        self.code = code

"""What goes wrong with a worker."""

from inference.messages import ErrorCode


class WorkerFailure(Exception):
    """A request that failed. str() is fit to be shown to a user; `code` says what kind of failure it is."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code

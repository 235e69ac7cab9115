"""What goes wrong with a worker, and how the log describes an unexpected error."""

import traceback

from inference.messages import ErrorCode


class WorkerFailure(Exception):
    """A request that failed. str() is fit to be shown to a user; `code` says what kind of failure it is."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def describe(error: BaseException) -> str:
    """Where an unexpected error came from, for the log. Leaves out its own words: they may quote a document."""
    return f"{type(error).__name__}\n{''.join(traceback.format_tb(error.__traceback__))}"

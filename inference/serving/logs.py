"""The worker's log: one file of limited size, without any document text."""

import logging
import sys
import traceback
from logging.handlers import RotatingFileHandler
from pathlib import Path

from inference.models.printable import LogFormatter

MAX_LOG_BYTES = 1024 * 1024
_FORMAT = "%(asctime)s %(process)d %(levelname)s %(message)s"
log = logging.getLogger("inference.worker")
_all = logging.getLogger("inference")
"""Its other children warn here, such as of a faster pass that a model cannot use."""


class _PrivateFileHandler(RotatingFileHandler):
    def _open(self):  # type: ignore[no-untyped-def]  # the base class gives no type that can be named
        file = Path(self.baseFilename)
        if file.is_symlink() or file.is_fifo():  # it leads to a file that is not ours, or would block
            file.unlink()
        file.touch(mode=0o600)
        return super()._open()


def set_up(path: Path, *, foreground: bool) -> None:
    """Logs to `path` (older lines in `path`.1), once that can be written; in the foreground to stderr as well.

    So do warnings of `inference`: the last line of stderr passes for the reason why a worker ended.
    """
    logging.raiseExceptions = False  # continues without a log, for example if the disk is full
    handlers: list[logging.Handler] = [
        _PrivateFileHandler(path, maxBytes=MAX_LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)
    ]
    if foreground:
        handlers.append(logging.StreamHandler(sys.stderr))
    for handler in handlers:
        handler.setFormatter(LogFormatter(_FORMAT))
        _all.addHandler(handler)
    log.setLevel(logging.INFO)
    _all.setLevel(logging.WARNING)
    _all.propagate = False


def describe(error: BaseException) -> str:
    """Where an unexpected error arose, and its words if they are torch's or the system's: others may quote text."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    words = str(error) if isinstance(error, RuntimeError | OSError) else "(message left out)"
    return f"{type(error).__name__}: {words}\n{frames}"

"""The worker's log, one file of limited size without any document text; and errors, for the log and the clients."""

import logging
import sys
import traceback
from logging.handlers import RotatingFileHandler
from pathlib import Path

from inference.engine.errors import RequestError
from inference.messages import ErrorCode, Failed
from inference.models.checkpoint_files import first_error_line
from inference.models.family import ModelError
from inference.serving.startup import WorkerArguments
from inference.terminal import PrintableLogFormatter

MAX_LOG_BYTES = 1024 * 1024
_FORMAT = "%(asctime)s %(process)d %(levelname)s %(message)s"
log = logging.getLogger("inference.worker")
_inference_log = logging.getLogger("inference")
"""The parent of all loggers of `inference`. A model warns there, for example, that it cannot use a faster pass."""
_NO_MEMORY = "The model ran out of memory; fill less at once, or close other programs"
_NO_MEMORY_WORDS = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "unable to allocate",
    "insufficient memory",
    "greater than the maximum allowed buffer size",
    "cannot allocate memory",
    "failed to map segment",
    "bad_alloc",
)


class _PrivateFileHandler(RotatingFileHandler):
    def _open(self):  # type: ignore[no-untyped-def]  # the base class gives no type that can be named
        file = Path(self.baseFilename)
        if file.is_symlink() or file.is_fifo():  # it leads to a file that is not ours, or would block
            file.unlink()
        file.touch(mode=0o600)
        return super()._open()


def set_up_log(path: Path) -> None:
    """Logs to `path` (older lines to `path`.1) as soon as it can be written, warnings of `inference` too, and not to
    stderr: its last line counts as the reason why a worker ended.
    """
    logging.raiseExceptions = False  # continues without a log, for example if the disk is full
    handler = _PrivateFileHandler(path, maxBytes=MAX_LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)
    handler.setFormatter(PrintableLogFormatter(_FORMAT))
    _inference_log.addHandler(handler)
    log.setLevel(logging.INFO)
    _inference_log.setLevel(logging.WARNING)
    _inference_log.propagate = False


def redacted_traceback(error: BaseException) -> str:
    """The frames of an unexpected error, and its message if torch or the system wrote that: others may quote text."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    message = str(error) if isinstance(error, RuntimeError | OSError) else "(message left out)"
    return f"{type(error).__name__}: {message}\n{frames}"


def failed_reply(error: Exception, request_id: str) -> Failed:
    """The final reply to a request whose step raised `error`; logs an unexpected error."""
    if is_out_of_memory(error):
        log.warning("out of memory in a request")
        return Failed(request_id, ErrorCode.OUT_OF_MEMORY, _NO_MEMORY)
    if isinstance(error, RequestError):
        return Failed(request_id, error.code, str(error))
    log.error("unexpected error in a request: %s", redacted_traceback(error))
    message = f"The worker met an unexpected error ({type(error).__name__}); see its log"
    return Failed(request_id, ErrorCode.INTERNAL, message)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on any device, even if another error wraps it. Only the wording identifies errors of the
    CPU, MPS and MLX, and those of libraries that are loaded.
    """
    if isinstance(error, (MemoryError, *_torch_error("OutOfMemoryError"))):
        return True
    message = str(error).lower().replace("cannot allocate memory in static tls block", "")
    if isinstance(error, RuntimeError | OSError | ImportError) and any(part in message for part in _NO_MEMORY_WORDS):
        return True
    cause = error.__cause__ or error.__context__
    return cause is not None and is_out_of_memory(cause)


def is_device_lost(error: BaseException) -> bool:
    """Whether the accelerator failed in a way that only a new process can recover from."""
    return isinstance(error, _torch_error("AcceleratorError")) and not is_out_of_memory(error)


def describe_load_failure(error: BaseException, arguments: WorkerArguments) -> str:
    """Tells the user why there is no model, and which one if two are set. The log has the traceback."""
    if is_out_of_memory(error):
        log.error("out of memory: %s", redacted_traceback(error))
        problem = f"{arguments.model} does not fit in memory; choose a smaller model or another device"
    elif isinstance(error, ModelError):
        log.error("%s", error)
        problem = str(error)
    else:
        log.error("loading failed: %s", redacted_traceback(error))
        reason = f"{type(error).__name__}: {first_error_line(error)}"
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror
        problem = f"{arguments.model} could not be loaded ({reason}); details are in {arguments.log}"
    return f"nextEdit.model: {problem}" if arguments.edits and not problem.startswith("nextEdit.model") else problem


def _torch_error(name: str) -> tuple[type[BaseException], ...]:
    """An exception class of torch, or none if torch is not imported."""
    error_type = getattr(sys.modules.get("torch"), name, None)
    return () if error_type is None else (error_type,)

"""Translates the engine's errors for the client and the log. Never imports torch itself."""

import ctypes
import gc
import sys
from contextlib import suppress

from inference.engine.errors import RequestError
from inference.messages import ErrorCode, Failed
from inference.serving.logs import describe, log

_GLIBC_PARAMETERS = {-8: 1, -3: 2 << 20, -1: 8 << 20}
"""`M_ARENA_MAX`, `M_MMAP_THRESHOLD` and `M_TRIM_THRESHOLD` of glibc's `malloc.h`."""
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


def failure_of(error: Exception, request_id: str) -> Failed:
    """The final reply to a request whose step raised `error`; logs an unexpected error."""
    if is_out_of_memory(error):
        log.warning("out of memory in a request")
        return Failed(request_id, ErrorCode.OUT_OF_MEMORY, _NO_MEMORY)
    if isinstance(error, RequestError):
        return Failed(request_id, error.code, str(error))
    log.error("unexpected error in a request: %s", describe(error))
    message = f"The worker met an unexpected error ({type(error).__name__}); its log says where"
    return Failed(request_id, ErrorCode.INTERNAL, message)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on any device, if only behind another error. Only the wording identifies errors of the
    CPU, MPS and MLX, and those of libraries that are loaded.
    """
    if isinstance(error, (MemoryError, *_torch_error("OutOfMemoryError"))):
        return True
    said = str(error).lower().replace("cannot allocate memory in static tls block", "")
    if isinstance(error, RuntimeError | OSError | ImportError) and any(words in said for words in _NO_MEMORY_WORDS):
        return True
    cause = error.__cause__ or error.__context__
    return cause is not None and is_out_of_memory(cause)


def is_device_lost(error: BaseException) -> bool:
    """Whether the accelerator failed in a way that only a new process can recover from."""
    return isinstance(error, _torch_error("AcceleratorError")) and not is_out_of_memory(error)


def release_memory() -> None:
    """Returns the memory of a failed request."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    mlx = sys.modules.get("mlx.core")
    if mlx is not None:
        mlx.clear_cache()
    return_memory()


def bound_heap() -> None:
    """Makes glibc return what a pass has freed. Its threads share one heap, and no free block there outlives a pass.

    By default every thread gets a heap of its own, which keeps blocks of up to 32 MB: a worker with a model of half a
    billion parameters then takes 50 MB more. Call it before any thread starts. See `mallopt(3)`.
    """
    with suppress(OSError, AttributeError, TypeError):  # no glibc
        libc = ctypes.CDLL(None)
        for parameter, value in _GLIBC_PARAMETERS.items():
            libc.mallopt(parameter, value)


def return_memory() -> None:
    """Returns freed memory to the system; takes some milliseconds."""
    with suppress(OSError, AttributeError, TypeError):  # no glibc
        ctypes.CDLL(None).malloc_trim(0)


def _torch_error(name: str) -> tuple[type[BaseException], ...]:
    """An exception class of torch, or none if torch is not imported."""
    found = getattr(sys.modules.get("torch"), name, None)
    return () if found is None else (found,)

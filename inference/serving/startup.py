"""The set-up of a worker's process: its command line, the environment of its libraries, and its heap."""

import argparse
import ctypes
import gc
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from inference.messages import WorkerOptions

NATIVE_TRANSPORT: Literal["unix", "tcp"] = "tcp" if os.name == "nt" else "unix"
"""On Windows asyncio has no Unix sockets."""
_GLIBC_PARAMETERS = {-8: 1, -3: 2 << 20, -1: 8 << 20}
"""`M_ARENA_MAX`, `M_MMAP_THRESHOLD` and `M_TRIM_THRESHOLD` of glibc's `malloc.h`."""
_SHAPES_KEPT = "64"


class WorkerArguments(WorkerOptions, frozen=True, kw_only=True):
    """The arguments of `python -m inference.worker`: the client's options, and where to listen and write."""

    socket: Path
    log: Path
    transport: Literal["unix", "tcp"] = NATIVE_TRANSPORT


def parse_arguments(argv: Sequence[str] | None = None) -> WorkerArguments:
    """The worker's arguments from its command line. Raises SystemExit, as argparse does, if they are wrong."""
    parser = argparse.ArgumentParser(prog="python -m inference.worker", description="The resident worker of infill-ls.")
    parser.add_argument("--socket", required=True, help="where to listen; with tcp, the file that says where")
    parser.add_argument("--log", help="log file; beside the socket by default")
    parser.add_argument("--transport", default=NATIVE_TRANSPORT, help="unix or tcp")
    for field in msgspec.structs.fields(WorkerOptions):  # which says what each means
        flag = "--" + field.name.replace("_", "-")
        if field.type is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=field.default)
        else:
            parser.add_argument(flag, default=field.default)
    values = vars(parser.parse_args(argv))
    values["socket"] = Path(values["socket"]).absolute()
    values["log"] = Path(values["log"]).absolute() if values["log"] else values["socket"].with_suffix(".log")
    try:
        return msgspec.convert(values, WorkerArguments, strict=False)
    except msgspec.ValidationError as error:
        parser.error(str(error))


def limit_spinning() -> None:
    """Limits how long OpenMP's threads spin while they wait, before torch is imported; the user's environment wins."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def prepare_process(arguments: WorkerArguments) -> None:
    """Sets the environment variables that torch and its libraries read on import, unless the user has set them.

    Limits how long OpenMP's waiting threads spin, and how much oneDNN caches. Beside another program, threads that
    spun for long made a fill of 0.2 s take 25 s on two cores. With 1,000 turns a pass of one row (0.5B) takes .81
    of the time it takes when threads sleep at once, on a quiet machine; 1.31 beside a busy loop, .94 beside two. oneDNN
    keeps a program for each of the last 1,024 shapes, and each keystroke brings new ones: 90 MB in 29 requests.
    """
    limit_spinning()
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _SHAPES_KEPT)
    os.environ.setdefault("LRU_CACHE_CAPACITY", _SHAPES_KEPT)  # torch's own, of oneDNN's operators
    os.environ["HF_HUB_OFFLINE"] = "1"  # a worker never downloads anything, even if a library wants to
    try:
        tempfile.gettempdir()
    except OSError:  # torch needs a name of one and writes nothing there
        logging.getLogger("inference.worker").warning("no temporary folder can be written; the disk may be full")
        tempfile.tempdir = str(arguments.socket.parent)


def release_memory() -> None:
    """Returns the memory of a failed request."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    mlx = sys.modules.get("mlx.core")
    if mlx is not None:
        mlx.clear_cache()
    trim_heap()


def limit_heap() -> None:
    """Makes glibc return what a pass has freed. Its threads share one heap, and no free block there outlives a pass.

    By default every thread gets a heap of its own, which keeps blocks of up to 32 MB: a worker with a model of half a
    billion parameters then takes 50 MB more. Call it before any thread starts. See `mallopt(3)`.
    """
    with suppress(OSError, AttributeError, TypeError):  # no glibc
        libc = ctypes.CDLL(None)
        for parameter, value in _GLIBC_PARAMETERS.items():
            libc.mallopt(parameter, value)


def trim_heap() -> None:
    """Returns freed memory to the system; takes some milliseconds."""
    with suppress(OSError, AttributeError, TypeError):  # no glibc
        ctypes.CDLL(None).malloc_trim(0)

"""Loads a local model, and words what went wrong with any. Torch is imported here, in the engine's thread."""

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from inference.models import edit_prompts
from inference.models.catalogue import EMBEDDED
from inference.models.checkpoint_files import first_line
from inference.models.family import ModelError, OnProgress
from inference.serving.faults import is_out_of_memory
from inference.serving.logs import describe, log
from inference.serving.startup import WorkerArguments

if TYPE_CHECKING:
    from inference.engine import Engine

_SHAPES_KEPT = "64"


def load_engine(arguments: WorkerArguments, on_progress: OnProgress) -> "Engine":
    """The engine on the command line's checkpoint. Raises ModelError."""
    began = time.monotonic()
    if arguments.model == EMBEDDED:
        # its steps are small: 0.28 s on two free cores against 0.20 s for two threads, 0.8 s against 2 to 8 s on busy
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    from inference.engine import Engine  # here and not above: importing torch takes seconds
    from inference.models import registry

    log.info("engine imported after %.2f s", time.monotonic() - began)
    edits = arguments.edits and edit_prompts.kind_of(arguments.edits, Path(arguments.model).name)
    if arguments.edits and not edits:
        registry.find(arguments.model)  # first of all it must be there
        raise ModelError(edit_prompts.unknown(arguments.model))
    family = registry.load(arguments.model, device=arguments.device, dtype=arguments.dtype, on_progress=on_progress)
    engine = Engine(family, edits=edits)
    if engine.note:
        log.warning("%s: %s", engine.model, engine.note)
    engine.warm_up()
    log.info("%s loaded on %s as %s after %.2f s", engine.model, engine.device, engine.dtype, time.monotonic() - began)
    return engine


def spin_briefly() -> None:
    """Limits how long OpenMP's threads spin while they wait, before torch is imported; the user's environment wins."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def prepare_process(arguments: WorkerArguments) -> None:
    """Settles what torch and its libraries read when they are imported, unless the user's environment has.

    Has OpenMP's waiting threads spin for a moment only, and keeps oneDNN from hoarding. Beside another program, threads
    that spun for long made a fill of 0.2 s take 25 s on two cores. With 1,000 turns a pass of one row (0.5B) takes .7
    of the time it takes when threads sleep at once, on a quiet machine; 1.3 beside a busy loop, 1.2 beside two. oneDNN
    keeps a program for each of the last 1,024 shapes, and each keystroke brings new ones: 90 MB in 29 requests.
    """
    spin_briefly()
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _SHAPES_KEPT)
    os.environ.setdefault("LRU_CACHE_CAPACITY", _SHAPES_KEPT)  # torch's own, of oneDNN's operators
    os.environ["HF_HUB_OFFLINE"] = "1"  # a worker never downloads anything, even if a library wants to
    try:
        tempfile.gettempdir()
    except OSError:  # torch needs a name of one and writes nothing there
        log.warning("no temporary folder can be written; the disk may be full")
        tempfile.tempdir = str(arguments.socket.parent)


def why_not_loaded(error: BaseException, arguments: WorkerArguments) -> str:
    """Why there is no model, for the user, who may have set two. ModelError speaks for itself; the log has the rest."""
    if is_out_of_memory(error):
        log.error("out of memory: %s", describe(error))
        why = f"{arguments.model} does not fit in memory; choose a smaller model or another device"
    elif isinstance(error, ModelError):
        log.error("%s", error)
        why = str(error)
    else:
        log.error("loading failed: %s", describe(error))
        reason = f"{type(error).__name__}: {first_line(error)}"
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror
        why = f"{arguments.model} could not be loaded ({reason}); details are in {arguments.log}"
    return f"nextEdit.model: {why}" if arguments.edits and not why.startswith("nextEdit.model") else why

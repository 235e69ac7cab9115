"""What `infill-ls calibrate` measured of a checkpoint: kept beside it, or in the user's cache folder.

A file of it is read as untrusted input. One that was measured on other weights is not used.
"""

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import platformdirs
from msgspec import Meta

from inference.models import checkpoint_files
from inference.models.checkpoint import Checkpoint
from inference.models.family import LengthBias, ModelError

NAME = "calibration.json"
_LIMIT_BYTES = 1 << 16
_SAMPLE_BYTES = 1 << 20
"""Of each weight file its end is told apart from others'; all of it would take minutes."""


class Calibration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`weights` is the fingerprint of those that were measured, `holes` how many holes they were measured on."""

    weights: Annotated[str, Meta(max_length=64)]
    holes: Annotated[int, Meta(ge=1, le=1 << 20)]
    length_bias: LengthBias
    version: Literal[1] = 1


def applied(found: Checkpoint) -> Checkpoint:
    """The checkpoint with what was measured of it, if anything. Raises ModelError where a file of it makes no sense."""
    files = [file for file in _places(found) if os.path.lexists(file)]
    if not files:
        return found
    mark = fingerprint(found)
    for file in files:
        known = _read(file)
        if known.weights == mark:
            return replace(found, properties=msgspec.structs.replace(found.properties, length_bias=known.length_bias))
    return found


def keep(found: Checkpoint, holes: int, bias: LengthBias) -> Path:
    """Writes it down where the next load finds it; returns the file. Raises OSError where that cannot be written."""
    content = msgspec.json.format(msgspec.json.encode(Calibration(fingerprint(found), holes, bias)), indent=2)
    *beside, cached = _places(found)
    for file in beside:
        try:
            _write(file, content)
        except OSError:
            continue  # a folder of somebody else: the user's own has room
        return file
    cached.parent.mkdir(parents=True, exist_ok=True)
    _write(cached, content)
    return cached


def fingerprint(found: Checkpoint) -> str:
    """Tells the weights of a checkpoint from others'. Raises ModelError where they cannot be read."""
    known = hashlib.sha256()
    for file in checkpoint_files.weight_files(found.folder):
        try:
            with file.open("rb") as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(max(0, size - _SAMPLE_BYTES))
                known.update(f"{file.name} {size}\n".encode() + stream.read(_SAMPLE_BYTES))
        except OSError as error:
            raise ModelError(f"{file} cannot be read: {error}") from error
    return known.hexdigest()


def _places(found: Checkpoint) -> list[Path]:
    """Where a calibration may be, the first choice first: a hub's own folders hold nothing but what it gave out."""
    cached = platformdirs.user_cache_path("infill-ls", appauthor=False) / "calibrations"
    own = [found.folder / NAME] if Path(found.name).expanduser().is_dir() else []
    return [*own, cached / f"{hashlib.sha256(str(found.folder).encode()).hexdigest()[:32]}.json"]


def _read(file: Path) -> Calibration:
    try:
        return msgspec.convert(checkpoint_files.read_json(file, _LIMIT_BYTES), Calibration)
    except msgspec.ValidationError as error:
        raise checkpoint_files.problem(file, error) from error
    except FileNotFoundError as error:
        raise ModelError(f"{file} leads to no file; remove it, or calibrate again") from error


def _write(file: Path, content: bytes) -> None:
    """Replaces the file as a whole, so that a load at the same moment reads the old one or the new one."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)

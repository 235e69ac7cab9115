"""A small on-disk cache of measurements of this machine, one JSON file per subject."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import platformdirs

from inference.models import checkpoint_files
from inference.models.family import ModelError

_LIMIT_BYTES = 1 << 20
T = TypeVar("T")


def read(name: str, kind: type[T]) -> dict[str, T]:
    """The values saved under this name; empty if they are missing or unreadable."""
    try:
        content = checkpoint_files.read_file(_file(name), _LIMIT_BYTES)
        return msgspec.json.decode(content, type=dict[str, kind])  # type: ignore[valid-type]
    except (OSError, ValueError, ModelError):
        return {}


def save(name: str, values: dict[str, Any]) -> None:
    """Saves values for later processes, if possible."""
    file = _file(name)
    new = file.with_suffix(f".{time.time_ns()}")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            new.write_bytes(msgspec.json.encode(values))
            new.replace(file)
        finally:
            new.unlink(missing_ok=True)


def _file(name: str) -> Path:
    return platformdirs.user_cache_path("infill-ls", appauthor=False) / f"{name}.json"

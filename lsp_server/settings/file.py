"""Reads `infill-ls.toml`, the settings of a folder and all below it, whenever it changes. Knows no LSP types."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from lsp_server.documents.reading import Unreadable, read_text
from lsp_server.settings.layers import Layer, Origin

NAME = "infill-ls.toml"
MAX_BYTES = 65_536
Stamp = tuple[int, int, int] | None
"""Changes whenever a file does; None if there is none."""


@dataclass(frozen=True)
class SettingsFile:
    """The settings file of a folder as it was read; without a `layer` if there is none that can be used."""

    path: Path
    stamp: Stamp = None
    layer: Layer | None = None
    problem: str = ""

    @classmethod
    def of(cls, folder: Path) -> "SettingsFile":
        """The file of a folder, existing or not. For any thread: a file system may be slow."""
        path = folder / NAME
        stamp = _stamp(path)
        if stamp is None:
            return cls(path)
        try:
            raw = tomllib.loads(read_text(path, MAX_BYTES))
        except Unreadable as error:
            return cls(path, stamp, problem="" if error.missing else f"{path}: {error}; ignored")
        except (ValueError, RecursionError) as error:  # a TOMLDecodeError, or of `int` for a number without end
            return cls(path, stamp, problem=f"{path}: not TOML: {error}; the whole file is ignored")
        return cls(path, stamp, Layer(str(path), raw, Origin.WORKSPACE))

    @property
    def is_current(self) -> bool:
        """Whether the file is still the same. For any thread."""
        return _stamp(self.path) == self.stamp


def _stamp(path: Path) -> Stamp:
    try:
        about = path.stat()
    except (OSError, ValueError):
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino

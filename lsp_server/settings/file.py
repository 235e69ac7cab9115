"""Reads `infill-ls.toml`, the settings of one workspace folder, whenever it changes. Knows no LSP types."""

import tomllib
from pathlib import Path

from lsp_server.documents.reading import Unreadable, read_text
from lsp_server.settings.layers import Layer, Origin

NAME = "infill-ls.toml"
MAX_BYTES = 65_536
Stamp = tuple[int, int, int] | None
"""Changes whenever a file does; None if there is none."""


class SettingsFile:
    """The settings file of a folder, existing or not. `layer` and `problem` are as of the last `refresh`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.layer: Layer | None = None
        self.problem = ""
        self._stamp: Stamp = None

    def refresh(self) -> bool:
        """Reads the file if it has changed since the last time; returns whether it had."""
        stamp = self._stamped()
        if stamp == self._stamp:
            return False
        self._stamp, self.layer, self.problem = stamp, None, ""
        try:
            raw = tomllib.loads(read_text(self.path, MAX_BYTES))
        except Unreadable as error:
            self.problem = "" if error.missing else f"{self.path}: {error}; ignored"
        except (ValueError, RecursionError) as error:  # a TOMLDecodeError, or of `int` for a number without end
            self.problem = f"{self.path}: not TOML: {error}; the whole file is ignored"
        else:
            self.layer = Layer(str(self.path), raw, Origin.WORKSPACE)
        return True

    def has_changed(self) -> bool:
        """Whether `refresh` would read it."""
        return self._stamped() != self._stamp

    def _stamped(self) -> Stamp:
        try:
            about = self.path.stat()
        except (OSError, ValueError):
            return None
        return about.st_mtime_ns, about.st_size, about.st_ino

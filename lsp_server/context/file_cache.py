"""Reading files of the workspace, and keeping what was read until they change. Belongs to one thread."""

import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from lsp_server.context.query import ReadableFolder
from lsp_server.documents.regular_file import Unreadable, read_text
from lsp_server.settings.privacy import why_off
from lsp_server.syntax.languages import language_of

MAX_BYTES = 200_000
"""A larger file is data, or generated."""
_MAX_FILES = 128
LOOKED_S = 5.0
"""Where an import leads to is looked up again after so long: most are the standard library's, and nowhere here."""
_T = TypeVar("_T")
_NOT_OURS = frozenset({"node_modules", "site-packages", "dist-packages", ".git"})


class TooLate(Exception):
    """Nobody waits any more."""


@dataclass(frozen=True)
class CachedFile:
    """A file as it was read. `path` is the real one, all links followed."""

    path: Path
    language_id: str
    text: str


class FileCache:
    """The files that were read last, and what was looked for.

    After `until`, in seconds of `time.monotonic()`, nothing more is read.
    """

    def __init__(self) -> None:
        self.until = inf
        self._files: OrderedDict[Path, tuple[tuple[int, int], CachedFile]] = OrderedDict()
        self._found: dict[object, tuple[float, list[Any]]] = {}

    def found(self, key: object, look: Callable[[], list[_T]]) -> list[_T]:
        """What `look` finds; what it found for this key counts for `LOOKED_S`. Raises TooLate."""
        now = time.monotonic()
        until, found = self._found.get(key, (0.0, []))
        if now > until:
            found = look()
            self._found = {known: entry for known, entry in self._found.items() if entry[0] > now}
            self._found[key] = now + LOOKED_S, found
        return found

    def read(self, path: Path, places: Sequence[ReadableFolder]) -> CachedFile | None:
        """The file, read again if it has changed; None where it may not be read, or is no text of a reasonable size.

        Raises TooLate.
        """
        if time.monotonic() > self.until:
            raise TooLate
        try:
            about = path.stat()
            if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_BYTES:
                return None
            real = allowed(path, places)
        except (OSError, ValueError):  # it is not there, its name has a NUL in it, or its links go round in circles
            return None
        return self._current(real, (about.st_mtime_ns, about.st_size)) if real else None

    def _current(self, real: Path, stamp: tuple[int, int]) -> CachedFile | None:
        known = self._files.get(real)
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            text = read_text(real, MAX_BYTES)
        except Unreadable:
            return None
        if "\0" in text:
            return None
        file = CachedFile(real, language_of(str(real)), text)
        self._files[real] = stamp, file
        while len(self._files) > _MAX_FILES:
            self._files.popitem(last=False)
        return file


def allowed(path: Path, places: Sequence[ReadableFolder], language_id: str = "") -> Path | None:
    """The real path of a file that may be shown to the model; None where it may not. Raises OSError if it is not there.

    With all links followed it lies in one of the places, it is secret or off by neither of its names, nor by the
    language that an editor says it is, and it is nobody else's package.
    """
    real = Path(os.path.realpath(path, strict=True))
    place = place_of(real, places)
    if place is None or _NOT_OURS & set(real.parts[len(place.root.parts) :]):
        return None
    names = {path, real}
    languages = {language_id, *(language_of(str(name)) for name in names)}
    is_off = any(why_off(name.as_posix(), spoken, place.settings) for name in names for spoken in languages)
    return None if is_off else real


def place_of(real: Path, places: Sequence[ReadableFolder]) -> ReadableFolder | None:
    """The innermost place that holds a path."""
    holding = [place for place in places if real.is_relative_to(place.root)]
    return max(holding, key=lambda place: len(place.root.parts), default=None)

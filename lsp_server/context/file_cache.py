"""Reads files of the workspace and caches them until they change. Belongs to one thread."""

import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from lsp_server.documents.reading import Unreadable, read_text
from lsp_server.syntax.languages import language_of

MAX_SOURCE_BYTES = 200_000
"""A larger file is data, or generated."""
_MAX_FILES = 128
_LOOKUP_S = 5.0
"""How long to cache the result of a search. Most imports are from the standard library and lead nowhere here."""
_T = TypeVar("_T")
_NOT_OURS = frozenset({"node_modules", "site-packages", "dist-packages", ".git"})


class TooLate(Exception):
    """The result is no longer wanted."""


@dataclass(frozen=True)
class CachedFile:
    """A file as read. `path` has all links resolved."""

    path: Path
    language_id: str
    text: str


@dataclass(frozen=True)
class Readable:
    """What may be read: the files in `folders` for which `why_unreadable`, given path and language, finds none."""

    folders: tuple[Path, ...]
    why_unreadable: Callable[[Path, str], str | None]

    def allowed(self, path: Path, language_id: str = "") -> Path | None:
        """The real path of a file that the model may see under all its names, else None. Raises OSError."""
        real = Path(os.path.realpath(path, strict=True))
        folder = self.folder_of(real)
        if folder is None or _NOT_OURS & set(real.parts[len(folder.parts) :]):
            return None
        languages = {language_of(str(path)), language_id}
        return None if any(self.why_unreadable(path, language) for language in languages) else real

    def folder_of(self, place: Path) -> Path | None:
        """The innermost folder that contains `place`, by its name alone; None if none does."""
        holding = [folder for folder in self.folders if place.is_relative_to(folder)]
        return max(holding, key=lambda folder: len(folder.parts), default=None)


class FileCache:
    """The most recently read files and search results. Reads nothing after `until`, by `time.monotonic()`."""

    def __init__(self) -> None:
        self.until = inf
        self._files: OrderedDict[Path, tuple[tuple[int, int], CachedFile]] = OrderedDict()
        self._searches: dict[object, tuple[float, list[Any]]] = {}

    def found(self, key: object, search: Callable[[], list[_T]]) -> list[_T]:
        """The result of `search`, cached under `key` for a few seconds. Raises TooLate."""
        now = time.monotonic()
        until, found = self._searches.get(key, (0.0, []))
        if now > until:
            found = search()
            self._searches = {known: entry for known, entry in self._searches.items() if entry[0] > now}
            self._searches[key] = now + _LOOKUP_S, found
        return found

    def read(self, path: Path, readable: Readable) -> CachedFile | None:
        """The file, reread if it has changed; None if it may not be read or is no reasonable text. Raises TooLate."""
        if time.monotonic() > self.until:
            raise TooLate
        try:
            about = path.stat()
            if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_SOURCE_BYTES:
                return None
            real = readable.allowed(path)
        except (OSError, ValueError):  # it does not exist, its name contains a NUL, or its links form a circle
            return None
        return self._current(real, (about.st_mtime_ns, about.st_size)) if real else None

    def _current(self, real: Path, stamp: tuple[int, int]) -> CachedFile | None:
        known = self._files.get(real)
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            text = read_text(real, MAX_SOURCE_BYTES)
        except Unreadable:
            return None
        if "\0" in text:
            return None
        file = CachedFile(real, language_of(str(real)), text)
        self._files[real] = stamp, file
        while len(self._files) > _MAX_FILES:
            self._files.popitem(last=False)
        return file

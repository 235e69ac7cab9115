"""Collects snippets for a request, most useful first, and yields each as soon as it is found. Runs in a thread."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from tree_sitter import Tree

from inference.messages import Snippet
from lsp_server.context.file_cache import MAX_SOURCE_BYTES, CachedFile, FileCache, Readable
from lsp_server.context.imports import Import, candidate_paths, imports, may_be_module
from lsp_server.context.outline import definitions, outline
from lsp_server.context.similar import LineWindow, identifiers_around, most_like, windows
from lsp_server.syntax.parsing import parse
from lsp_server.syntax.source import well_formed

MAX_BUFFERS = 12
"""How many open documents to consider: the most recently used ones."""
_MAX_OUTLINE_CHARACTERS = 3_000
"""For one imported file."""
_MAX_REEXPORTS = 2
"""How many files to follow for a name that each of them only re-exports."""


@dataclass(frozen=True)
class Buffer:
    """An open document. `path` is that of its file."""

    path: Path
    language_id: str
    version: int
    text: str


@dataclass(frozen=True)
class ContextQuery:
    """An immutable request for context at `line` (from 0). `others` are the other open documents, last used first."""

    document: Buffer
    tree: Tree | None
    line: int
    others: tuple[Buffer, ...]
    readable: Readable


def gather(query: ContextQuery, cache: FileCache) -> Iterator[Snippet]:
    """Snippets for the document, not limited yet. Raises `file_cache.TooLate`."""
    query = _resolved(query)
    shown = set()
    for snippet in imported(query, cache):
        shown.add(snippet.path)
        yield snippet
    yield from (snippet for snippet in open_parts(query) if snippet.path not in shown)


def imported(query: ContextQuery, cache: FileCache) -> Iterator[Snippet]:
    """The definitions that the document imports from files in the folders. Unsaved text replaces the file's."""
    document = query.document
    reader = _ImportReader(cache, query)
    for file, names in reader.follow(document, imports(document.language_id, query.tree), _MAX_REEXPORTS):
        if text := outline(definitions(file.language_id, file.text), names):
            yield Snippet(_shown_path(file.path, query.readable), well_formed(_whole_lines(text)))


def open_parts(query: ContextQuery) -> Iterator[Snippet]:
    """The lines of each open document most similar to those around the cursor, the document's own language first."""
    document = query.document
    wanted = identifiers_around(document.text, query.line)
    for buffer in sorted(query.others, key=lambda buffer: buffer.language_id != document.language_id):
        if len(buffer.text) <= MAX_SOURCE_BYTES and "\0" not in buffer.text:
            best = most_like(wanted, _windows(buffer.text))
            if best is not None:
                yield Snippet(_shown_path(buffer.path, query.readable), well_formed(best.text))


class _ImportReader:
    """Finds the files that imports refer to."""

    def __init__(self, cache: FileCache, query: ContextQuery) -> None:
        self._cache = cache
        self._readable = query.readable
        self._buffers = {buffer.path: buffer for buffer in query.others}
        self._seen = {query.document.path}

    def follow(
        self, importer: Buffer | CachedFile, wanted: Sequence[Import], depth: int
    ) -> Iterator[tuple[CachedFile, tuple[str, ...]]]:
        """Each imported file with the wanted names. No file comes twice."""
        folder = self._readable.folder_of(importer.path)
        if folder is None:
            return
        for one in wanted:
            for path, meant in self._cache.found((importer.path, one), partial(self._find, importer, one, folder)):
                file = self._read(path)
                if file is None or file.path in self._seen:
                    continue
                self._seen.add(file.path)
                yield from self._wanted(file, meant.names, depth)

    def _wanted(
        self, file: CachedFile, names: tuple[str, ...], depth: int
    ) -> Iterator[tuple[CachedFile, tuple[str, ...]]]:
        """The file and, for names that it only re-exports, the files they come from."""
        known = {name for definition in definitions(file.language_id, file.text) for name in definition.names}
        missing = set(names) - known
        passed_on = [
            Import(one.module, tuple(name for name in one.names if name in missing))
            for one in (_imports(file.language_id, file.text) if missing and depth else ())
            if missing & set(one.names)
        ]
        all_missing = len(missing) == len(names)
        if not (names and all_missing and (passed_on or may_be_module(file.language_id))):
            yield file, () if all_missing else names
        yield from self.follow(file, passed_on, depth - 1)

    def _find(self, importer: Buffer | CachedFile, one: Import, folder: Path) -> list[tuple[Path, Import]]:
        """The files that an import refers to, each with the wanted names."""
        found = []
        for paths, meant in candidate_paths(importer.language_id, one, importer.path, folder):
            file = next((file for path in paths if (file := self._cache.read(path, self._readable))), None)
            if file is not None:
                found.append((file.path, meant))
        return found

    def _read(self, path: Path) -> CachedFile | None:
        file = self._cache.read(path, self._readable)
        buffer = self._buffers.get(file.path) if file else None
        return replace(file, text=buffer.text) if file and buffer else file


@lru_cache(maxsize=64)
def _imports(language_id: str, text: str) -> tuple[Import, ...]:
    return tuple(imports(language_id, parse(language_id, text)))


@lru_cache(maxsize=MAX_BUFFERS + 4)
def _windows(text: str) -> tuple[LineWindow, ...]:
    return tuple(windows(text))


def _resolved(query: ContextQuery) -> ContextQuery:
    """The query with all links resolved, and without the open documents that the model may not see."""
    readable = replace(query.readable, folders=tuple(Path(os.path.realpath(at)) for at in query.readable.folders))
    document = replace(query.document, path=Path(os.path.realpath(query.document.path)))
    others = [replace(buffer, path=real) for buffer in query.others if (real := _allowed(buffer, readable))]
    others = [buffer for buffer in others if buffer.path != document.path][:MAX_BUFFERS]
    return replace(query, document=document, others=tuple(others), readable=readable)


def _allowed(buffer: Buffer, readable: Readable) -> Path | None:
    try:
        return readable.allowed(buffer.path, buffer.language_id)
    except (OSError, ValueError):  # not saved yet, or deleted: its links cannot be checked
        return None


def _shown_path(path: Path, readable: Readable) -> str:
    """The path that the model sees: relative to the workspace folder."""
    folder = readable.folder_of(path)
    return well_formed(path.relative_to(folder).as_posix() if folder else path.name)


def _whole_lines(text: str) -> str:
    """As many whole lines of `text` as the limit for one file allows."""
    limit = _MAX_OUTLINE_CHARACTERS
    return text if len(text) <= limit else text[: text.rfind("\n", 0, limit) + 1]

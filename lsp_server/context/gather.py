"""From a question to snippets, the most useful ones first: what the imported names are, then parts of open documents.

Runs in a thread, and yields each snippet as soon as it has it, so that whoever waits can stop waiting.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from inference.messages import Snippet
from lsp_server.context.file_cache import MAX_BYTES, CachedFile, FileCache, allowed, place_of
from lsp_server.context.imports import Import, imports, may_be_module, places_of
from lsp_server.context.outline import definitions, outline
from lsp_server.context.query import Buffer, ContextQuery, ReadableFolder
from lsp_server.context.similar import Window, around, most_like, windows
from lsp_server.syntax.parsing import parse
from lsp_server.syntax.source import well_formed

MAX_BUFFERS = 12
"""So many of the documents used last are looked at."""
_MAX_OUTLINE = 3_000
"""Characters of one imported file."""
_REEXPORTS = 2
"""So many files a name is followed through that only passes it on."""


def gather(question: ContextQuery, library: FileCache) -> Iterator[Snippet]:
    """Snippets for the document, not yet limited in number. Raises `library.TooLate`."""
    question = _real(question)
    shown = set()
    for snippet in imported(question, library):
        shown.add(snippet.path)
        yield snippet
    yield from (snippet for snippet in open_parts(question) if snippet.path not in shown)


def imported(question: ContextQuery, library: FileCache) -> Iterator[Snippet]:
    """The definitions of what the document imports from files inside the places; open ones as they stand unsaved."""
    document = question.document
    reader = _Reader(library, question)
    for file, names in reader.follow(document, imports(document.language_id, question.tree), _REEXPORTS):
        if text := outline(definitions(file.language_id, file.text), names):
            yield Snippet(_shown(file.path, question.places), well_formed(_cut(text)))


def open_parts(question: ContextQuery) -> Iterator[Snippet]:
    """Of each open document the lines that are most like those around the cursor; those of the same language first."""
    document = question.document
    wanted = around(document.text, question.line)
    for buffer in sorted(question.others, key=lambda buffer: buffer.language_id != document.language_id):
        if len(buffer.text) <= MAX_BYTES and "\0" not in buffer.text:
            best = most_like(wanted, _windows(buffer.text))
            if best is not None:
                yield Snippet(_shown(buffer.path, question.places), well_formed(best.text))


class _Reader:
    """Finds the files that imports mean."""

    def __init__(self, library: FileCache, question: ContextQuery) -> None:
        self._library, self._places = library, question.places
        self._buffers = {buffer.path: buffer for buffer in question.others}
        self._seen = {question.document.path}

    def follow(
        self, importer: Buffer | CachedFile, wanted: Sequence[Import], depth: int
    ) -> Iterator[tuple[CachedFile, tuple[str, ...]]]:
        """Each file that is imported, with the names that are wanted of it; none is looked at twice."""
        place = place_of(importer.path, self._places)
        if place is None:
            return
        for one in wanted:
            for path, meant in self._library.found((importer.path, one), partial(self._find, importer, one, place)):
                file = self._read(path)
                if file is None or file.path in self._seen:
                    continue
                self._seen.add(file.path)
                yield from self._wanted(file, meant.names, depth)

    def _wanted(
        self, file: CachedFile, names: tuple[str, ...], depth: int
    ) -> Iterator[tuple[CachedFile, tuple[str, ...]]]:
        """The file, and where it only passes a name on, the one that this comes from."""
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

    def _find(self, importer: Buffer | CachedFile, one: Import, place: ReadableFolder) -> list[tuple[Path, Import]]:
        """The files that an import means, each with what is wanted of it."""
        found = []
        for paths, meant in places_of(importer.language_id, one, importer.path, place.root):
            file = next((file for path in paths if (file := self._library.read(path, self._places))), None)
            if file is not None:
                found.append((file.path, meant))
        return found

    def _read(self, path: Path) -> CachedFile | None:
        file = self._library.read(path, self._places)
        buffer = self._buffers.get(file.path) if file else None
        return replace(file, text=buffer.text) if file and buffer else file


@lru_cache(maxsize=64)
def _imports(language_id: str, text: str) -> tuple[Import, ...]:
    return tuple(imports(language_id, parse(language_id, text)))


@lru_cache(maxsize=MAX_BUFFERS + 4)
def _windows(text: str) -> tuple[Window, ...]:
    return tuple(windows(text))


def _real(question: ContextQuery) -> ContextQuery:
    """The question with all links followed, and of the open documents those that may be shown."""
    places = tuple(replace(place, root=Path(os.path.realpath(place.root))) for place in question.places)
    document = replace(question.document, path=Path(os.path.realpath(question.document.path)))
    others = [replace(buffer, path=real) for buffer in question.others if (real := _allowed(buffer, places))]
    others = [buffer for buffer in others if buffer.path != document.path][:MAX_BUFFERS]
    return replace(question, document=document, others=tuple(others), places=places)


def _allowed(buffer: Buffer, places: Sequence[ReadableFolder]) -> Path | None:
    try:
        return allowed(buffer.path, places, buffer.language_id)
    except (OSError, ValueError):  # not saved yet, or gone: then there is no knowing where it would lead
        return None


def _shown(path: Path, places: Sequence[ReadableFolder]) -> str:
    """A path as the model is told it: seen from the folder it is in."""
    place = place_of(path, places)
    name = path.relative_to(place.root).as_posix() if place else path.name
    return well_formed(name)


def _cut(text: str) -> str:
    """Whole lines of a text, as many as one file may have."""
    return text if len(text) <= _MAX_OUTLINE else text[: text.rfind("\n", 0, _MAX_OUTLINE) + 1]

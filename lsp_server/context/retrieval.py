"""Chooses snippets of open and imported files, and of the distant parts of the document, for a request, in a thread:
those most like the lines around the hole come first.
"""

import asyncio
import logging
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from threading import Lock

from inference.messages import BYTES_PER_TOKEN, Snippet, Status, fit_snippets
from lsp_server.context.bm25 import CodeChunk, chunks_of_lines, lines_around, rank_chunks, split_chunks, split_lines
from lsp_server.documents.document import Document, Snapshot
from lsp_server.documents.reading import UnreadableError, read_text
from lsp_server.documents.uris import local_path
from lsp_server.settings.blocking_io import run_in_daemon_thread
from lsp_server.settings.configuration import Configuration
from lsp_server.syntax.imports import imports_of
from lsp_server.syntax.languages import language_id_of_path
from lsp_server.syntax.parsing import parse, replace_lone_surrogates

log = logging.getLogger(__name__)
MAX_SOURCE_CHARACTERS = 200_000
"""A longer text is probably data or generated code."""
MAX_OPEN_FILES = 12
"""How many open documents to consider: the most recently used ones."""
MAX_IMPORTED_FILES = 12
"""How many imported files to read: the first ones."""
_MAX_IMPORTS = 1_000
"""How many modules and names to look for: each may be one of a hundred files, and no thread can be stopped."""
SAME_CONTEXT_LINES = 20
"""A selection is reused within this many lines, so that the model need not read its prompt again."""
_VISIBLE_RATIO = 4
"""On each side of a hole a model sees at most this many times the tokens that it takes of other texts.

Of 206 lines in long files of unseen packages, 256 tokens of far parts won 18 and lost 6 (0.5B). Of 72 others, twice the
text in front won 4 and lost 1.
"""
TYPING_MS, ASKED_MS = 50, 1_000
"""How long an automatic and an explicit request wait for snippets."""
MAX_LATE_THREADS = 4
"""This many unfinished queries mean that their threads hang, as on a lost network drive: do not start more."""
_DEPENDENCY_FOLDERS = frozenset({"node_modules", "site-packages", "dist-packages", ".git"})


@dataclass(frozen=True)
class OpenFile:
    """An open document. `path` is that of its file."""

    path: Path
    language_id: str
    version: int
    text: str


@dataclass(frozen=True)
class ContextQuery:
    """An immutable request for at most `max_tokens` of context at `line` (from 0).

    `others` are the other open documents, last used first. A file may be read if it is in one of the `folders` and
    `unreadable_reason`, given its path and language, returns no reason.
    """

    document: OpenFile
    line: int
    others: tuple[OpenFile, ...]
    max_tokens: int
    folders: tuple[Path, ...]
    unreadable_reason: Callable[[Path, str], str | None]

    @classmethod
    def from_snapshot(
        cls,
        snapshot: Snapshot,
        offset: int,
        status: Status | None,
        configuration: Configuration,
        open_documents: Iterable[Document] = (),
    ) -> "ContextQuery | None":
        """The request for a hole at `offset`. None if a model of this `status` takes no context, the settings switch it
        off, or the document is not a file on this machine.
        """
        max_tokens = status.context_tokens if status else 0
        if not (max_tokens and configuration.for_uri(snapshot.uri).context.enabled and local_path(snapshot.uri)):
            return None
        documents: list[Document | Snapshot] = [snapshot, *open_documents]
        paths = ((document, local_path(document.uri)) for document in documents)
        own, *opened = (
            OpenFile(path, document.language_id, document.version, document.text) for document, path in paths if path
        )
        line = snapshot.lines.line_of(offset)
        why_not = configuration.unreadable_reason
        return cls(own, line, tuple(opened), max_tokens, folders=configuration.roots, unreadable_reason=why_not)

    def allowed_path(self, path: Path, language_id: str = "") -> Path | None:
        """The real path of a file that exists and that the model may see under each of its names; None for others."""
        with suppress(OSError, ValueError):
            real = Path(os.path.realpath(path, strict=True))
            folder = self.folder_of(real)
            if folder is not None and not _DEPENDENCY_FOLDERS & set(real.parts[len(folder.parts) :]):
                languages = {language_id_of_path(str(path)), language_id}
                return None if any(self.unreadable_reason(path, language) for language in languages) else real
        return None

    def folder_of(self, path: Path) -> Path | None:
        """The innermost folder that contains `path`, by its name alone; None if none does."""
        holding = [folder for folder in self.folders if path.is_relative_to(folder)]
        return max(holding, key=lambda folder: len(folder.parts), default=None)

    def shown_path(self, path: Path) -> str:
        """The path that the model sees: relative to the workspace folder."""
        folder = self.folder_of(path)
        return replace_lone_surrogates(path.relative_to(folder).as_posix() if folder else path.name)


@dataclass(frozen=True)
class ContextSelection:
    """The snippets for all queries with this `key` near a `line`. `imported` files were read for it."""

    key: object
    line: int
    snippets: tuple[Snippet, ...]
    imported: tuple[Path, ...]


def select_context(query: ContextQuery, last: ContextSelection | None) -> ContextSelection:
    """Selects the snippets for a query. Near its line, reuses the `last` selection as long as the other documents and
    the selected parts of this one stay the same.
    """
    folders = tuple(Path(os.path.realpath(folder)) for folder in query.folders)
    own = Path(os.path.realpath(query.document.path))
    query = replace(query, document=replace(query.document, path=own), folders=folders)
    allowed = ((buffer, query.allowed_path(buffer.path, buffer.language_id)) for buffer in query.others)
    buffers = (
        replace(buffer, path=real) for buffer, real in allowed if real and real != own and _is_source(buffer.text)
    )
    query = replace(query, others=tuple(islice(buffers, MAX_OPEN_FILES)))
    versions = ((buffer.path, buffer.version) for buffer in query.others)
    key = own, query.max_tokens, folders, frozenset(versions)
    if last and last.key == key and abs(query.line - last.line) <= SAME_CONTEXT_LINES and _is_still_valid(last, query):
        return last
    imported = list[OpenFile]()
    snippets = tuple(fit_snippets(_ranked_snippets(query, imported), query.max_tokens))
    return ContextSelection(key, query.line, snippets, tuple(buffer.path for buffer in imported))


def _is_still_valid(last: ContextSelection, query: ContextQuery) -> bool:
    """Whether the imported files may still be shown, and the parts of the document are still in it."""
    own, text = query.shown_path(query.document.path), replace_lone_surrogates(query.document.text)
    is_in_text = all(snippet.text in text for snippet in last.snippets if snippet.path == own)
    return is_in_text and all(map(query.allowed_path, last.imported))


def _ranked_snippets(query: ContextQuery, imported: list[OpenFile]) -> Iterator[Snippet]:
    """Snippets of the texts, those of the first group first."""
    lines = lines_around(query.document.text, query.line)
    for group in _groups(query, imported):
        chunks = [(query.shown_path(path), chunk) for path, file_chunks in group for chunk in file_chunks]
        for path, chunk in rank_chunks(lines, chunks):
            yield Snippet(path, replace_lone_surrogates(chunk.text))


_Group = list[tuple[Path, Sequence[CodeChunk]]]


def _groups(query: ContextQuery, imported: list[OpenFile]) -> Iterator[_Group]:
    """Yields the groups of texts: the document and those open in the same language, imported files, other open
    documents. Imported files are read only when their group is needed, and added to `imported`.
    """
    language_id = query.document.language_id
    yield [
        (query.document.path, [*_distant_chunks(query)]),
        *_chunked(query.others, lambda language: language == language_id),
    ]
    imported += _imported_files(query)
    yield _chunked(imported)
    yield _chunked(query.others, lambda language: language != language_id)


def _chunked(buffers: Iterable[OpenFile], is_wanted: Callable[[str], bool] = lambda _: True) -> _Group:
    return [(buffer.path, split_chunks(buffer.text)) for buffer in buffers if is_wanted(buffer.language_id)]


def _distant_chunks(query: ContextQuery) -> Iterator[CodeChunk]:
    """Chunks of the document that are not near the hole, where the model sees the text anyway."""
    text = query.document.text
    if _is_source(text):
        lines = split_lines(text)
        starts = [0, *accumulate(map(len, lines))]
        visible_chars = query.max_tokens * BYTES_PER_TOKEN
        hole_offset = starts[min(query.line, len(lines))]
        yield from chunks_of_lines(lines[: bisect_left(starts, hole_offset - _VISIBLE_RATIO * visible_chars)])
        first_line = bisect_left(starts, hole_offset + visible_chars)
        yield from chunks_of_lines(lines[first_line:], first_line)


def _imported_files(query: ContextQuery) -> list[OpenFile]:
    """The files of the workspace that the document imports, except open ones."""
    own, buffers = query.document, dict[Path, OpenFile]()
    visited = {own.path, *(buffer.path for buffer in query.others)}
    folders = tuple(os.path.join(folder, "") for folder in query.folders)  # noqa: PTH118 - ends with a slash
    imports = imports_of(own.language_id, parse(own.language_id, own.text), own.path)
    for _, _, files in islice(imports, _MAX_IMPORTS):
        inside = (file for file in files if file.startswith(folders))
        existing = (Path(file) for file in inside if os.path.isfile(file))  # noqa: PTH113 - quick: few of thousands exist
        real = next((path for file_path in existing if (path := query.allowed_path(file_path))), None)
        if len(buffers) == MAX_IMPORTED_FILES:
            break
        if real is not None and real not in visited:
            visited.add(real)
            with suppress(UnreadableError):
                buffers[real] = OpenFile(real, own.language_id, 0, read_text(real, MAX_SOURCE_CHARACTERS))
    return [buffer for buffer in buffers.values() if _is_source(buffer.text)]


def _is_source(text: str) -> bool:
    return len(text) <= MAX_SOURCE_CHARACTERS and "\0" not in text


class ContextGatherer:
    """Chooses context for one query at a time, in threads, and keeps the last choice."""

    def __init__(self) -> None:
        self._last: ContextSelection | None = None
        self._turn = Lock()
        self.unfinished = set[asyncio.Task[tuple[Snippet, ...]]]()
        """The queries that are not finished, including those whose requests have stopped waiting."""

    async def gather(self, query: ContextQuery | None, max_ms: int) -> tuple[Snippet, ...]:
        """Snippets, most useful first; none without a query, or if that takes longer than `max_ms`. Never raises."""
        if query is None:
            return ()
        if len(self.unfinished) >= MAX_LATE_THREADS:
            log.info("no context: earlier requests for it are unfinished")
            return ()
        working = asyncio.create_task(run_in_daemon_thread(partial(self._choose, query)))
        self.unfinished.add(working)
        working.add_done_callback(self.unfinished.discard)
        done, _ = await asyncio.wait({working}, timeout=max_ms / 1000)
        return working.result() if done else ()

    def _choose(self, query: ContextQuery) -> tuple[Snippet, ...]:
        try:
            with self._turn:
                self._last = select_context(query, self._last)
                return self._last.snippets
        except Exception as error:  # context is optional: a fill continues without it
            log.warning("context was not gathered: %s", type(error).__name__)
            return ()

"""Cuts pieces out of open and imported files, and of the far parts of the document, for a request, in a thread: likest
to the lines around the hole first.
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

from inference.messages import Snippet, Status
from lsp_server.context.similar import Piece, around, lines_of, pieces, pieces_of, ranked
from lsp_server.documents.document import Document, Snapshot
from lsp_server.documents.reading import Unreadable, read_text
from lsp_server.documents.uris import local_path
from lsp_server.settings.file_system import in_thread
from lsp_server.settings.resolver import Configuration
from lsp_server.syntax.imports import imports_of
from lsp_server.syntax.languages import language_of
from lsp_server.syntax.parsing import parse, well_formed

log = logging.getLogger(__name__)
MAX_SOURCE_CHARACTERS = 200_000
"""A longer text is data, or generated."""
MAX_BUFFERS = 12
"""How many open documents to consider: the most recently used ones."""
MAX_IMPORTED = 12
"""How many imported files to read: the first ones."""
_MAX_IMPORTS = 1_000
"""How many modules and names to look for: each may be one of a hundred files, and no thread can be stopped."""
REGION_LINES = 20
"""The choice stays within so many lines of where it was made, so that the model need not read its prompt again."""
BYTES_PER_TOKEN = 3
"""With the supported tokenizers, code has 3 to 4 bytes of UTF-8 per token; other scripts have about one character."""
_SEEN_TIMES = 4
"""In front of a hole a model sees at most so many times the tokens that it takes of other texts, and that many behind.

Of 206 lines in long files of unseen packages, 256 tokens of far parts won 18 and lost 6 (0.5B). Of 72 others, twice
the text in front won 4 and lost 1.
"""
TYPING_MS, ASKED_MS = 50, 1_000
"""How long an automatic and an explicit request wait for the parts of other files."""
MAX_UNFINISHED = 4
"""This many unfinished queries mean that their threads hang, as on a lost network drive: do not start more."""
_NOT_OURS = frozenset({"node_modules", "site-packages", "dist-packages", ".git"})


@dataclass(frozen=True)
class Buffer:
    """An open document. `path` is that of its file."""

    path: Path
    language_id: str
    version: int
    text: str


@dataclass(frozen=True)
class ContextQuery:
    """An immutable request for at most `max_tokens` of context at `line` (from 0).

    `others` are the other open documents, last used first. Of files, those in `folders` may be read for which
    `why_unreadable`, given path and language, finds no reason.
    """

    document: Buffer
    line: int
    others: tuple[Buffer, ...]
    max_tokens: int
    folders: tuple[Path, ...]
    why_unreadable: Callable[[Path, str], str | None]

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        offset: int,
        status: Status | None,
        configuration: Configuration,
        others: Iterable[Document] = (),
    ) -> "ContextQuery | None":
        """The request for a hole at `offset`. None if a model of this `status` takes no context, the settings switch it
        off, or the document is not a file on this machine.
        """
        max_tokens = status.context_tokens if status else 0
        if not (max_tokens and configuration.of(snapshot.uri).context.enabled and local_path(snapshot.uri)):
            return None
        documents: list[Document | Snapshot] = [snapshot, *others]
        found = ((each, local_path(each.uri)) for each in documents)
        own, *opened = (Buffer(path, each.language_id, each.version, each.text) for each, path in found if path)
        line = snapshot.lines.line_of(offset)
        why_not = configuration.why_unreadable
        return cls(own, line, tuple(opened), max_tokens, folders=configuration.roots, why_unreadable=why_not)

    def allowed(self, path: Path, language_id: str = "") -> Path | None:
        """The real path of a file that the model may see under all its names; None also for one that is not there."""
        with suppress(OSError, ValueError):
            real = Path(os.path.realpath(path, strict=True))
            folder = self.folder_of(real)
            if folder is not None and not _NOT_OURS & set(real.parts[len(folder.parts) :]):
                languages = {language_of(str(path)), language_id}
                return None if any(self.why_unreadable(path, language) for language in languages) else real
        return None

    def folder_of(self, place: Path) -> Path | None:
        """The innermost folder that contains `place`, by its name alone; None if none does."""
        holding = [folder for folder in self.folders if place.is_relative_to(folder)]
        return max(holding, key=lambda folder: len(folder.parts), default=None)

    def shown_path(self, path: Path) -> str:
        """The path that the model sees: relative to the workspace folder."""
        folder = self.folder_of(path)
        return well_formed(path.relative_to(folder).as_posix() if folder else path.name)


@dataclass(frozen=True)
class Choice:
    """The pieces for all queries with this `key` near a `line`. `imported` files were read for it."""

    key: object
    line: int
    snippets: tuple[Snippet, ...]
    imported: tuple[Path, ...]


def choose(query: ContextQuery, last: Choice | None) -> Choice:
    """The pieces for a query: the `last` choice near its line, as long as the other documents and the parts shown of
    this one stay the same.
    """
    folders = tuple(Path(os.path.realpath(at)) for at in query.folders)
    own = Path(os.path.realpath(query.document.path))
    query = replace(query, document=replace(query.document, path=own), folders=folders)
    found = ((buffer, query.allowed(buffer.path, buffer.language_id)) for buffer in query.others)
    others = (replace(buffer, path=real) for buffer, real in found if real and real != own and _is_source(buffer.text))
    query = replace(query, others=tuple(islice(others, MAX_BUFFERS)))
    versions = ((buffer.path, buffer.version) for buffer in query.others)
    key = own, query.max_tokens, folders, frozenset(versions)
    if last and last.key == key and abs(query.line - last.line) <= REGION_LINES and _still_holds(last, query):
        return last
    imported = list[Buffer]()
    snippets = tuple(within(_likest(query, imported), query.max_tokens))
    return Choice(key, query.line, snippets, tuple(buffer.path for buffer in imported))


def _still_holds(last: Choice, query: ContextQuery) -> bool:
    """Whether the imported files may still be shown, and the parts of the document are still in it."""
    own, text = query.shown_path(query.document.path), well_formed(query.document.text)
    is_in_text = all(snippet.text in text for snippet in last.snippets if snippet.path == own)
    return is_in_text and all(map(query.allowed, last.imported))


def _likest(query: ContextQuery, imported: list[Buffer]) -> Iterator[Snippet]:
    """Pieces of the texts, those of the first group first."""
    lines = around(query.document.text, query.line)
    for group in _groups(query, imported):
        found = [(query.shown_path(path), piece) for path, some in group for piece in some]
        for path, piece in ranked(lines, found):
            yield Snippet(path, well_formed(piece.text))


_Group = list[tuple[Path, Sequence[Piece]]]


def _groups(query: ContextQuery, imported: list[Buffer]) -> Iterator[_Group]:
    """The document and those open in the same language, imported files, other open documents. Reads files, which it
    adds to `imported`, if it gets so far.
    """
    language_id = query.document.language_id
    yield [(query.document.path, [*_far(query)]), *_cut(query.others, lambda each: each == language_id)]
    imported += _imported(query)
    yield _cut(imported)
    yield _cut(query.others, lambda each: each != language_id)


def _cut(buffers: Iterable[Buffer], is_wanted: Callable[[str], bool] = lambda _: True) -> _Group:
    return [(each.path, pieces(each.text)) for each in buffers if is_wanted(each.language_id)]


def _far(query: ContextQuery) -> Iterator[Piece]:
    """Pieces of the document that are not around the hole, where the model sees all anyway."""
    text = query.document.text
    if _is_source(text):
        lines = lines_of(text)
        starts = [0, *accumulate(map(len, lines))]
        seen = query.max_tokens * BYTES_PER_TOKEN
        here = starts[min(query.line, len(lines))]
        yield from pieces_of(lines[: bisect_left(starts, here - _SEEN_TIMES * seen)])
        behind = bisect_left(starts, here + seen)
        yield from pieces_of(lines[behind:], behind)


def _imported(query: ContextQuery) -> list[Buffer]:
    """The files of the workspace that the document imports, but for open ones."""
    own, found = query.document, dict[Path, Buffer]()
    known = {own.path, *(buffer.path for buffer in query.others)}
    folders = tuple(os.path.join(folder, "") for folder in query.folders)  # noqa: PTH118 - ends with a slash
    imports = imports_of(own.language_id, parse(own.language_id, own.text), own.path)
    for _, _, files in islice(imports, _MAX_IMPORTS):
        inside = (file for file in files if file.startswith(folders))
        there = (Path(file) for file in inside if os.path.isfile(file))  # noqa: PTH113 - quick: few of thousands exist
        real = next((path for each in there if (path := query.allowed(each))), None)
        if len(found) == MAX_IMPORTED:
            break
        if real is not None and real not in known:
            known.add(real)
            with suppress(Unreadable):
                found[real] = Buffer(real, own.language_id, 0, read_text(real, MAX_SOURCE_CHARACTERS))
    return [buffer for buffer in found.values() if _is_source(buffer.text)]


def within(snippets: Iterable[Snippet], max_tokens: int) -> Iterator[Snippet]:
    """The first snippets that fit into the budget; of the one that does not, the whole lines that do."""
    left = max_tokens
    for snippet in snippets:
        left -= estimated_tokens(snippet.path)
        lines = snippet.text.splitlines(keepends=True)
        while lines and estimated_tokens("".join(lines)) > left:
            del lines[-1]
        if lines:
            yield Snippet(snippet.path, "".join(lines))
        left -= estimated_tokens(snippet.text)
        if left <= 0:
            return


def estimated_tokens(text: str) -> int:
    """The number of tokens in `text`, estimated without the model's tokenizer; rather too many than too few."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def _is_source(text: str) -> bool:
    return len(text) <= MAX_SOURCE_CHARACTERS and "\0" not in text


class ContextSource:
    """Chooses context for one query at a time, in threads, and keeps the last choice."""

    def __init__(self) -> None:
        self._last: Choice | None = None
        self._turn = Lock()
        self.unfinished = set[asyncio.Task[tuple[Snippet, ...]]]()
        """The queries that are not finished, including those whose requests have stopped waiting."""

    async def gather(self, query: ContextQuery | None, max_ms: int) -> tuple[Snippet, ...]:
        """Snippets, most useful first; none without a query, or if that takes longer than `max_ms`. Never raises."""
        if query is None:
            return ()
        if len(self.unfinished) >= MAX_UNFINISHED:
            log.info("no context: earlier requests for it are unfinished")
            return ()
        working = asyncio.create_task(in_thread(partial(self._choose, query)))
        self.unfinished.add(working)
        working.add_done_callback(self.unfinished.discard)
        done, _ = await asyncio.wait({working}, timeout=max_ms / 1000)
        return working.result() if done else ()

    def _choose(self, query: ContextQuery) -> tuple[Snippet, ...]:
        try:
            with self._turn:
                self._last = choose(query, self._last)
                return self._last.snippets
        except Exception as error:  # context is optional: a fill continues without it
            log.warning("context was not gathered: %s", type(error).__name__)
            return ()

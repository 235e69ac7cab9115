"""Decides which documents may be filled: by path, by the targets of the links on it, and by the settings there."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from lsp_server.documents.document import Document
from lsp_server.documents.links import names_of
from lsp_server.documents.notebooks import Notebooks
from lsp_server.documents.uris import path_as_given, possible_paths
from lsp_server.settings.file_system import FileSystem
from lsp_server.settings.privacy import is_secret, why_off
from lsp_server.settings.resolver import Configuration
from lsp_server.settings.schema import Settings

LOST = "could not be read; reopen the file to get suggestions"
_UNANSWERED = "its file system does not answer, so the target of its path is unknown; ask again once it does"


class Permission:
    """Decides for one editor's documents. Calls `on_secret` for each whose links turn out to lead to a secret."""

    def __init__(
        self,
        configuration: Configuration,
        documents: Mapping[str, Document],
        notebooks: Notebooks,
        file_system: FileSystem,
        on_secret: Callable[[str], None],
        on_settings: Callable[[], None],
    ) -> None:
        self._configuration, self._documents, self._notebooks = configuration, documents, notebooks
        self._file_system, self._on_secret, self._on_settings = file_system, on_secret, on_settings
        self._links: dict[str, tuple[str, ...]] = {}
        """Where the links on each document's path led when last followed."""
        self.lost: dict[str, str] = {}
        """The documents with an unreadable edit, and their languages."""

    def forget(self, uri: str) -> None:
        """The document was closed."""
        self._links.pop(uri, None)
        self.lost.pop(uri, None)

    def is_secret(self, uri: str) -> bool:
        """Whether a document may hold secrets, judging by the path the editor gives."""
        return any(is_secret(path, self._settings_of(uri)) for path in self._paths_of(uri))

    def why_off(self, uri: str) -> str | None:
        """Why a document gets no fills; None if it does. Uses what is known of its links and follows none."""
        document, links = self._documents.get(uri), self._links.get(uri, ())
        language = document.language_id if document else ""
        path, *others = self._paths_of(uri)
        reason = why_off(path, language, self._settings_of(uri), (*others, *links))
        there = (why_off(link, language, self._configuration.at(Path(link))) for link in links)
        closed = f"an edit of it {LOST}" if uri in self.lost else "the document is not open"
        return reason or next(filter(None, there), None) or (None if document else closed)

    async def why_off_now(self, uri: str) -> str | None:
        """The same, after following its links again and reading changed settings files."""
        answers = await self.follow_links(uri)
        return self.why_off(uri) or (None if answers else _UNANSWERED)

    async def follow_links(self, uri: str) -> bool:
        """Follows the links on a document's path again. Returns whether their targets are known.

        For a cell also those of its notebook's cells, whose text it shows. The same call also reads changed settings
        files.
        """
        home = self._notebooks.home_of(uri)
        given = (path_as_given(each) for each in (home, uri, *self._notebooks.cells_of(home)))
        paths = tuple(dict.fromkeys(filter(None, given)))
        question = partial(_looked_at, paths, self._configuration.have_files_changed)
        have_changed, links = await self._file_system.ask(paths, question) or (False, None)
        if have_changed:
            self._on_settings()
        if links is not None and uri in self._documents:
            mine = self._settings_of(uri)
            if any(is_secret(link, mine) or is_secret(link, self._configuration.at(Path(link))) for link in links):
                self._on_secret(uri)
            self._links[uri] = links
        return links is not None

    def _settings_of(self, uri: str) -> Settings:
        return self._configuration.of(self._notebooks.home_of(uri))

    def _paths_of(self, uri: str) -> tuple[str, ...]:
        """Every path a document may have; a cell also has its notebook's."""
        names = dict.fromkeys((self._notebooks.home_of(uri), uri))
        return tuple(path for each in names for path in possible_paths(each))


def _looked_at(paths: tuple[Path, ...], have_files_changed: Callable[[], bool]) -> tuple[bool, tuple[str, ...]]:
    """Whether settings files have changed, and the further names that paths have through their links. In a thread."""
    return have_files_changed(), tuple(name.as_posix() for path in paths for name in names_of(path)[1:])

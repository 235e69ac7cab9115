"""Decides which documents may be filled: by path, by the targets of the links on it, and by the settings there."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from lsp_server.documents.document import Document
from lsp_server.documents.links import names_of
from lsp_server.documents.notebooks import Notebooks
from lsp_server.documents.uris import path_as_given, possible_paths
from lsp_server.settings.file_system import FileSystem
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
        self._configuration = configuration
        self._documents = documents
        self._notebooks = notebooks
        self._file_system = file_system
        self._on_secret = on_secret
        self._on_settings = on_settings
        self._links: dict[str, tuple[str, ...]] = {}
        """Where the links on each document's path led when last followed."""
        self.lost: dict[str, str] = {}
        """The documents with an unreadable edit, and their languages."""

    def forget(self, uri: str) -> None:
        """The document was closed."""
        self._links.pop(uri, None)
        self.lost.pop(uri, None)

    def is_secret(self, uri: str) -> bool:
        """Whether a document may hold secrets, judging by the path the editor gives and the known links on it."""
        return self._configuration.is_secret(self._names_of(uri), self._settings_of(uri))

    def why_off(self, uri: str) -> str | None:
        """Why a document gets no fills; None if it does. Uses what is known of its links and follows none."""
        document = self._documents.get(uri)
        language = document.language_id if document else ""
        reason = self._configuration.why_off(self._names_of(uri), language, self._settings_of(uri))
        closed = f"an edit of it {LOST}" if uri in self.lost else "the document is not open"
        return reason or (None if document else closed)

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
        others = tuple(path for path in map(Path, self._names_of(uri)) if path.is_absolute())  # of a diff's side
        question = partial(_looked_at, paths, others, self._configuration)
        has_changed, links = await self._file_system.ask((paths, others), question) or (False, None)
        if has_changed:
            self._on_settings()
        if links is not None and uri in self._documents:
            is_first = uri not in self._links
            self._links[uri] = links
            names = (
                self._names_of(uri) if is_first else links
            )  # its own name may be that of a secret by the settings around it
            if self._configuration.is_secret(names, self._settings_of(uri)):
                self._on_secret(uri)
                self._links[uri] = links  # until it is closed
        return links is not None

    def _settings_of(self, uri: str) -> Settings:
        return self._configuration.of(self._notebooks.home_of(uri))

    def _names_of(self, uri: str) -> tuple[str, ...]:
        """Every path a document may have, with the known targets of its links; a cell also has its notebook's."""
        names = dict.fromkeys((self._notebooks.home_of(uri), uri))
        return (*(path for each in names for path in possible_paths(each)), *self._links.get(uri, ()))


def _looked_at(
    paths: tuple[Path, ...], others: tuple[Path, ...], configuration: Configuration
) -> tuple[bool, tuple[str, ...]]:
    """Whether settings files above any path have changed, and the names that `paths` have by links. In a thread."""
    names = [names_of(path) for path in paths]
    has_changed = configuration.refresh([*others, *(name for several in names for name in several)])
    return has_changed, tuple(name.as_posix() for _, *others in names for name in others)

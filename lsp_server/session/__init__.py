"""One editor's session: its documents, settings, connections and features. For one event loop."""

import asyncio
import os
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from inference.install_hints import mlx_advice
from inference.messages import Snippet, Status
from lsp_server.context.retrieval import ASKED_MS, ContextGatherer, ContextQuery
from lsp_server.diagnosis.models import claim_one_time_advice, other_programs_downloads, reuse_downloads_advice
from lsp_server.documents.document import Document, ParseJob, Snapshot
from lsp_server.documents.notebooks import Notebooks
from lsp_server.documents.uris import file_name, paths_via_links, possible_paths, unresolved_path
from lsp_server.features import Feature, FeatureRegistry
from lsp_server.lsp.capabilities import ClientCapabilities
from lsp_server.lsp.editor_connection import EditorConnection
from lsp_server.lsp.worker_supervisor import CLIENT_NAME, STATUS_CHANGED, PartnerSupervisor, WorkerSupervisor
from lsp_server.settings.blocking_io import BlockingIo
from lsp_server.settings.configuration import Configuration
from lsp_server.settings.schema import PARTNER, Settings
from lsp_server.settings.worker_options import edit_model_options, partner_options, worker_options
from lsp_server.syntax.lines import normalise_line_ends
from lsp_server.worker import ClientState, WorkerClient
from lsp_server.worker.failure import StillLoadingError, WorkerUnresponsiveError

_F = TypeVar("_F", bound=Feature)
_DESYNCED_MESSAGE = "could not be read; reopen the file to get suggestions"
_NO_ANSWER_MESSAGE = "its file system does not answer, so the target of its path is unknown. Try again once it does."


class Session:
    """One client: its documents, settings and connections. `flags` are the command line's settings; they win."""

    def __init__(self, server: LanguageServer, flags: Mapping[str, Any]) -> None:
        self.client_capabilities = ClientCapabilities()
        self._configured = partial(Configuration, flags, os.environ)
        self.configuration = self._configured()
        self.documents: dict[str, Document] = {}
        self.notebooks = Notebooks(self.documents)
        self.editor = EditorConnection(server)
        self.worker = WorkerSupervisor(server, self.editor.show_once, self._tell_status)
        self.partner: PartnerSupervisor | None = None
        self.edit_model: WorkerClient | None = None
        self._connect_partner = partial(PartnerSupervisor, server, self.editor.show_once, self._tell_status)
        self.features = FeatureRegistry()
        self._context = ContextGatherer()
        self._parsing: dict[ParseJob, asyncio.Task[None]] = {}
        self._file_system = BlockingIo()
        self._links: dict[str, tuple[str, ...]] = {}
        """The targets of the links on each document's path, as of the last time they were followed."""
        self._desynced: dict[str, str] = {}
        """The documents with an unreadable edit, and their languages."""
        self._tasks: set[asyncio.Task[Any]] = set()

    def feature(self, kind: type[_F]) -> _F:
        return next(feature for feature in self.features.of_class(kind) if type(feature) is kind)

    @property
    def is_computing(self) -> bool:
        return any(feature.is_computing for feature in self.features.of_class(Feature))

    @property
    def settings(self) -> Settings:
        """The settings outside any document; for a document use `settings_of`."""
        return self.configuration.settings

    def settings_of(self, uri: str) -> Settings:
        """The settings for a document, by its workspace folder; for a cell by that of its notebook."""
        return self.configuration.for_uri(self.notebooks.notebook_or_self(uri))

    def offers_next_edits(self, uri: str) -> bool:
        return self.settings_of(uri).next_edit.enabled and self.disabled_reason(uri) is None

    def start(self, capabilities: ClientCapabilities, options: Any, folders: Sequence[str] = ()) -> None:
        """Starts with the client's capabilities, its start options, and the URIs of its workspace folders."""
        self.client_capabilities = capabilities
        self.editor.takes_notifications = capabilities.notifications
        self.configuration = self._configured(options, folders)
        self.worker.shows_progress = capabilities.progress
        self.worker.use(worker_options(self.settings, sends_token=self.configuration.sends_token))
        if self.settings.partner.url is not None and self.settings.model != PARTNER:
            self.partner = self._connect_partner()
            self.partner.use(partner_options(self.settings, sends_token=self.configuration.sends_partner_token))

    def run_in_background(self, work: Coroutine[Any, Any, Any]) -> None:
        """Runs `work`, at most until the client disconnects."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def connect_edit_model(self) -> None:
        """Connects to the edit model. Resolving `auto` takes a third of a second of processor time, in a thread."""
        if options := await asyncio.to_thread(edit_model_options, self.settings):
            self.edit_model = WorkerClient(options, name=CLIENT_NAME, on_state=self._warn_of_failure)

    def status_report(self) -> dict[str, Any]:
        return self.worker.report() | {"partner": self.partner.report() if self.partner else None}

    @property
    def partner_connection(self) -> WorkerSupervisor | None:
        """The connection to the partner, which may be the model itself; None if there is none."""
        return self.worker if self.settings.model == PARTNER else self.partner

    def refresh_settings(self) -> None:
        if self.configuration.refresh():
            self.show_problems()

    def show_problems(self) -> None:
        """Tells the user about each problem with the settings once."""
        for problem in self.configuration.problems:
            self.warn(problem)

    def open(self, uri: str, language_id: str, version: int, text: str) -> None:
        """Opens a document unless it may hold secrets. The targets of links on its path are known a moment later."""
        self.forget_document(uri)
        self.refresh_settings()
        if not self.configuration.is_secret(self._names_of(uri), self.settings_of(uri)):
            surroundings = self.notebooks.surroundings_of(uri)
            self.documents[uri] = Document(uri, language_id, version, self.normalise_for_neovim(text), surroundings)
            self.features.opened(uri)
        self.run_in_background(self._follow_links(uri))  # of a secret, to know its hard links

    def normalise_for_neovim(self, text: str) -> str:
        """Converts text from the editor to the line ends that the editor expects in edits."""
        return normalise_line_ends(text) if self.client_capabilities.is_neovim else text

    def forget_document(self, uri: str) -> None:
        """The document was closed, or our copy of it can no longer be trusted."""
        self.features.closed(uri)
        if document := self.documents.pop(uri, None):
            document.stop_parsing()
        self._links.pop(uri, None)
        self._desynced.pop(uri, None)

    def close(self) -> None:
        """Ends the session: stops the prefetches and drops all documents, which take by far the most memory."""
        for uri in tuple(self.documents):
            self.forget_document(uri)
        for task in self._tasks:
            task.cancel()

    def mark_desynced(self, *uris: str) -> None:
        """Marks documents as out of sync after an unreadable edit. They get no fills until `resync`."""
        opened = [uri for uri in uris if uri in self.documents]
        for uri in uris:
            document = self.documents.get(uri)
            language = document.editor_language_id if document else self._desynced.get(uri)
            self.forget_document(uri)
            if language is not None:
                self._desynced[uri] = language
        if len(opened) == 1:
            self.warn(f"an edit of {file_name(opened[0])} {_DESYNCED_MESSAGE}")
        elif opened:
            self.warn("an edit could not be read; reopen your files to get suggestions")

    def resync(self, uri: str, version: int, text: str) -> None:
        """Reopens a document after an unreadable edit, with the whole text from the editor."""
        if (language := self._desynced.get(uri)) is not None:
            self.open(uri, language, version, text)

    def show_failure(self, failure: StillLoadingError | WorkerUnresponsiveError) -> None:
        """Tells the user why an explicit request got nothing; that the model is loading, only once per load."""
        if isinstance(failure, WorkerUnresponsiveError) or self.worker.claim_first_report_of_load():
            self.editor.show(str(failure), types.MessageType.Warning)

    def _tell_status(self) -> None:
        self.editor.notify(STATUS_CHANGED, self.status_report())
        if self.worker.client.better_model and not self.client_capabilities.is_own_plugin and claim_one_time_advice():
            self.run_in_background(self._advise_on_models())

    async def _advise_on_models(self) -> None:
        downloads = await asyncio.to_thread(other_programs_downloads)
        device = self.worker.report()["device"] or ""
        advice = [self.worker.no_model_message + reuse_downloads_advice(downloads, device), mlx_advice()]
        self.editor.show_once("; ".join(filter(None, advice)), types.MessageType.Info)

    def _warn_of_failure(self, state: ClientState, detail: str) -> None:
        if state is ClientState.FAILED and detail:
            self.warn(detail)

    def warn(self, message: str) -> None:
        self.editor.show_once(message, types.MessageType.Warning)

    def disabled_reason(self, uri: str) -> str | None:
        """Why a document gets no fills; None if it does. Uses the known targets of its links and follows none."""
        document = self.documents.get(uri)
        language = document.editor_language_id if document else ""
        closed = f"an edit of it {_DESYNCED_MESSAGE}" if uri in self._desynced else "the document is not open"
        reason = self.configuration.disabled_reason(self._names_of(uri), language, self.settings_of(uri))
        return reason or (None if document else closed)

    async def fresh_disabled_reason(self, uri: str) -> str | None:
        """`disabled_reason` after following the links again and reading changed settings files. For text that goes to
        the model, not for each keystroke.
        """
        answers = await self._follow_links(uri)
        return self.disabled_reason(uri) or (None if answers else _NO_ANSWER_MESSAGE)

    async def _follow_links(self, uri: str) -> bool:
        """Follows the links on a document's path again, and reads changed settings files. Returns False if the file
        system did not answer. Forgets a document whose links lead to a secret. For a cell, also follows the links of
        the other cells, whose text the model sees.
        """
        home = self.notebooks.notebook_or_self(uri)
        uris = (home, uri, *self.notebooks.cells_of(home))
        paths = tuple(dict.fromkeys(filter(None, map(unresolved_path, uris))))
        linked = tuple(path for path in map(Path, self._names_of(uri)) if path.is_absolute())  # also of a diff's side
        work = partial(_refresh_names, paths, linked, self.configuration)
        has_changed, links = await self._file_system.run((paths, linked), work) or (False, None)
        if has_changed:
            self.show_problems()
        if links is not None and uri in self.documents:
            is_first = uri not in self._links
            self._links[uri] = links
            # the first time, also checks the document's own name, by the settings of its folder
            names = self._names_of(uri) if is_first else links
            if self.configuration.is_secret(names, self.settings_of(uri)):
                self.forget_document(uri)
                self._links[uri] = links  # until the editor closes it
        return links is not None

    def _names_of(self, uri: str) -> tuple[str, ...]:
        """Every path a document may have, with the known targets of its links; a cell also has its notebook's."""
        names = dict.fromkeys((self.notebooks.notebook_or_self(uri), uri))
        return (*(path for name in names for path in possible_paths(name)), *self._links.get(uri, ()))

    def snapshot(self, uri: str) -> Snapshot | None:
        """The current document, if it is open and may be filled."""
        return None if self.disabled_reason(uri) else self.documents[uri].snapshot(quick=True)

    async def parsed_snapshot(self, document: Document) -> Snapshot | None:
        """A snapshot with a tree; None if the document is edited or closed before there is one. Parses in a thread if
        that takes long: requests wait for the tree, keystrokes do not.
        """
        job = document.parse_job()
        if job is None:
            return document.snapshot()
        running = self._parsing.get(job)
        if running is None:
            running = self._parsing[job] = asyncio.create_task(asyncio.to_thread(job.run))
            running.add_done_callback(lambda _: (self._parsing.pop(job, None), document.adopt_parse(job)))
        await asyncio.shield(running)  # others may wait for it too
        is_current = self.documents.get(document.uri) is document and document.adopt_parse(job)
        return document.snapshot() if is_current else None

    def mark_recently_used(self, uri: str) -> None:
        if document := self.documents.pop(uri, None):
            self.documents[uri] = document

    async def context_for(
        self, snapshot: Snapshot, offset: int, status: Status | None, max_ms: int = ASKED_MS
    ) -> tuple[Snippet, ...] | None:
        """The snippets of other files for a hole at `offset`, as many as are found within `max_ms` and as the model of
        this `status` can use. None if the model may not see the document, after following its links again.
        """
        if await self.fresh_disabled_reason(snapshot.uri):
            return None
        documents = (
            document
            for uri, document in reversed(self.documents.items())
            if uri != snapshot.uri and document.editor_language_id not in self.settings_of(uri).disabled_languages
        )
        query = ContextQuery.from_snapshot(snapshot, offset, status, self.configuration, open_documents=documents)
        return await self._context.gather(query, max_ms)

    def is_current(self, snapshot: Snapshot) -> bool:
        current = self.documents.get(snapshot.uri)
        return current is not None and current.version == snapshot.version and current.text == snapshot.text


def _refresh_names(
    paths: tuple[Path, ...], other_paths: tuple[Path, ...], configuration: Configuration
) -> tuple[bool, tuple[str, ...]]:
    """Whether settings files above any path have changed, and the names that `paths` have by links. In a thread."""
    names = [paths_via_links(path) for path in paths]
    has_changed = configuration.refresh([*other_paths, *(name for several in names for name in several)])
    names = [configuration.with_hard_links(several) for several in names]
    return has_changed, tuple(name.as_posix() for _, *other_paths in names for name in other_paths)

"""One editor's session: its documents, its settings, and the lines to it and to the worker. For one event loop.

A request takes the snapshot and the settings it needs when it arrives, and looks here again only to see whether the
document has moved on.
"""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from inference.messages import Snippet, Status
from lsp_server.context import ContextSource
from lsp_server.documents.document import Document, Snapshot
from lsp_server.documents.notebooks import Notebooks
from lsp_server.documents.parse_job import ParseJob
from lsp_server.documents.uris import path_as_given, path_of, possible_paths
from lsp_server.fill.other_files import other_files
from lsp_server.fill.pipeline import worker_options
from lsp_server.inline import InlineService
from lsp_server.inline.suggestion import computation_of
from lsp_server.lsp.capabilities import ClientFeatures
from lsp_server.lsp.editor_connection import EditorConnection
from lsp_server.lsp.edits import range_of
from lsp_server.lsp.partner_connection import PartnerConnection
from lsp_server.lsp.status_board import CHANGED
from lsp_server.lsp.worker_connection import WorkerConnection
from lsp_server.refine import Refining
from lsp_server.settings.link_lookup import LinkLookup, Names
from lsp_server.settings.privacy import is_secret, why_off
from lsp_server.settings.resolver import Configuration
from lsp_server.settings.schema import PARTNER, Settings
from lsp_server.shadow import Shadow, other_options
from lsp_server.usage import Usage
from lsp_server.usage.recorder import Recorder
from lsp_server.usage.text_range import TextRange

REFINED = "infill/refined"
"""Tells that the partner has written something better."""
_T = TypeVar("_T")
_UNANSWERED = "where its path leads is not known, since its file system does not answer; ask again once it does"
_LOST = "could not be understood; there are no fills in it until it is closed and opened again"
_ALL_LOST = (
    "an edit could not be understood, nor which file it is of; there are no fills in the files that are open now until "
    "they are closed and opened again"
)


class Session:
    """All that is known of one client. `flags` are the settings of the command line; they beat the editor's."""

    def __init__(self, server: LanguageServer, flags: Mapping[str, Any]) -> None:
        self.features = ClientFeatures()
        self.configuration = Configuration(flags, os.environ)
        self.documents: dict[str, Document] = {}
        self.notebooks = Notebooks(self.documents)
        self.editor = EditorConnection(server)
        self.worker = WorkerConnection(server, self.editor.show_once, self._tell_status)
        self.partner: PartnerConnection | None = None
        self._connect_partner = partial(PartnerConnection, server, self.editor.show_once, self._tell_status)
        self.recorder = Recorder(lambda uri: self.settings_of(uri).statistics == "on", self._warn)
        self.usage = Usage(self.recorder.add)
        self.shadow = Shadow(self, self.recorder.add)
        self.refining = Refining(self, self._tell_refined, self._leave_out)
        self.inline = self._new_service()
        self.completions = self.inline
        """The same service, unless the client asks for both: then neither answer makes the other one stale."""
        self._context = ContextSource()
        self._parsing: dict[ParseJob, asyncio.Task[None]] = {}
        self._lookup = LinkLookup()
        self._links: dict[str, Names] = {}
        """Where the links on the path of each document have led when they were last followed."""
        self._following: set[asyncio.Task[bool]] = set()
        self._lost: dict[str, str] = {}
        """The documents of which an edit could not be read, and their languages."""

    @property
    def inline_services(self) -> tuple[InlineService, ...]:
        """The services that must be told of changes of documents."""
        return (self.inline,) if self.completions is self.inline else (self.inline, self.completions)

    @property
    def is_computing(self) -> bool:
        """Whether a suggestion is computed."""
        return any(service.is_computing for service in self.inline_services)

    @property
    def model_status(self) -> Status | None:
        """What the model's worker has last said of itself."""
        return self.worker.client.last_status

    @property
    def settings(self) -> Settings:
        """The settings for no document in particular; for a document ask `settings_of`."""
        return self.configuration.settings

    def settings_of(self, uri: str) -> Settings:
        """The settings for a document, by the workspace folder it is in; for a cell by that of its notebook."""
        return self.configuration.of(self.notebooks.home_of(uri))

    def start(self, features: ClientFeatures, options: Any, folders: Sequence[str] = ()) -> None:
        """The client has said what it can do, its start options, and the URIs of its workspace folders."""
        self.features = features
        self.configuration.start(options, folders)
        if features.inline_completion:
            self.completions = self._new_service()
        sends_token = self.configuration.sends_token
        self.worker.configure(self.settings, sends_token=sends_token, progress=features.progress)
        sends_partner_token = self.configuration.sends_partner_token
        if self.settings.partner.url is not None and self.settings.model != PARTNER:
            self.partner = self._connect_partner(self.settings, sends_token=sends_partner_token)
        other = other_options(self.settings, sends_token=sends_partner_token)
        self.shadow.configure(worker_options(self.settings, sends_token=sends_token), other)

    def status_report(self) -> dict[str, Any]:
        """How the worker is, and the partner."""
        return self.worker.status.report() | {"partner": self.partner.report() if self.partner else None}

    @property
    def partner_line(self) -> WorkerConnection | None:
        """The connection to the partner, which may be the model itself; None where there is none."""
        return self.worker if self.settings.model == PARTNER else self.partner

    @property
    def worker_line(self) -> WorkerConnection:
        """The connection to the model's worker."""
        return self.worker

    def refresh_settings(self) -> None:
        """Read the settings files that have changed."""
        if self.configuration.refresh():
            self.show_problems()

    def show_problems(self) -> None:
        """Tell the user what is wrong with the settings; each thing once."""
        for problem in self.configuration.problems:
            self.editor.show_once(problem, types.MessageType.Warning)

    def open(self, uri: str, language_id: str, version: int, text: str) -> None:
        """Keep a document, unless it may hold secrets. Where links on its path lead is known a moment later."""
        self.forget(uri)
        self.refresh_settings()
        home = self.notebooks.home_of(uri)
        if not any(is_secret(path, self.settings_of(home)) for path in possible_paths(home)):
            around = self.notebooks.surroundings_of(uri)
            self.documents[uri] = Document(uri, language_id, version, text, around)
            for service in self.inline_services:
                service.open(uri)
            following = asyncio.create_task(self._follow_links(uri))
            self._following.add(following)
            following.add_done_callback(self._following.discard)

    def forget(self, uri: str) -> None:
        """The document was closed, or what we have of it can no longer be trusted."""
        for service in self.inline_services:
            service.forget(uri)
        self.usage.forget(uri)
        self.shadow.forget(uri)
        self.refining.forget(uri)
        if document := self.documents.pop(uri, None):
            document.stop_parsing()
        self._links.pop(uri, None)
        self._lost.pop(uri, None)

    def close(self) -> None:
        """The client is gone: stop the prefetches and keep no document, for documents take by far the most memory."""
        for uri in tuple(self.documents):
            self.forget(uri)
        self._context.close()

    def lose(self, uri: str) -> None:
        """An edit could not be read, so our text is no longer the editor's: the document gets no more fills."""
        if self._lose(uri):
            self.editor.show_once(f"an edit of {path_of(uri).rpartition('/')[2]} {_LOST}", types.MessageType.Warning)

    def lose_all(self) -> None:
        """An edit could not be read, nor which document it was of: none of them gets fills."""
        lost = [uri for uri in tuple(self.documents) if self._lose(uri)]
        if lost:
            self.editor.show_once(_ALL_LOST, types.MessageType.Warning)

    def found_again(self, uri: str, version: int, text: str) -> None:
        """The editor has sent the whole text of a document, which is opened again where an edit of it was lost."""
        if uri in self._lost:
            self.open(uri, self._lost[uri], version, text)

    def _new_service(self) -> InlineService:
        return InlineService(
            self.documents,
            self.worker,
            self.gather_context,
            self.may_send,
            self.usage,
            self.shadow.answered,
            self.refining,
        )

    def _tell_status(self, _report: dict[str, Any]) -> None:
        self.editor.notify(CHANGED, self.status_report())

    def _tell_refined(self, uri: str, what: str | TextRange) -> None:
        """There is something better than a suggestion, or than a fill just made."""
        if isinstance(what, str):
            self.editor.notify(REFINED, {"uri": uri, "id": what})
            return
        place = range_of(self.documents[uri].lines, what.start, what.end, self.features.encoding)
        self.editor.notify(REFINED, {"uri": uri, "range": place})

    def _leave_out(self, uri: str, what: str | TextRange) -> None:
        """The partner is asked to improve this: whatever comes of it, it is no part of the sample.

        Were it left out only where the partner's text is better, the draft would keep all that it wins.
        """
        if isinstance(what, str):
            self.shadow.withdraw(uri, computation_of(what))
        else:
            self.shadow.refined(uri, [what])

    def _warn(self, message: str) -> None:
        self.editor.show_once(message, types.MessageType.Warning)

    def _lose(self, uri: str) -> bool:
        """Whether the document was open. One that was lost before stays lost."""
        document, language = self.documents.get(uri), self._lost.get(uri)
        self.forget(uri)
        if document is not None:
            language = document.language_id
        if language is not None:
            self._lost[uri] = language
        return document is not None

    def why_off(self, uri: str) -> str | None:
        """Why a document gets no fills; None where it does. What is known of its links counts; none is followed."""
        document, home = self.documents.get(uri), self.notebooks.home_of(uri)
        language, links = document.language_id if document else "", self._links.get(uri, ())
        path, *others = possible_paths(home)
        reason = why_off(path, language, self.settings_of(home), (*others, *links))
        there = (why_off(link, language, self.configuration.at(Path(link))) for link in links)
        unknown = f"an edit of it {_LOST}" if uri in self._lost else "the document is not open"
        return reason or next(filter(None, there), None) or (None if document else unknown)

    async def why_off_now(self, uri: str) -> str | None:
        """The same, its links followed anew: to be asked before a text goes to the model, not with each key."""
        if uri in self.documents and not await self._follow_links(uri):
            return self.why_off(uri) or _UNANSWERED
        return self.why_off(uri)

    async def may_send(self, snapshot: Snapshot) -> bool:
        """Whether the model may see a document, after its links were followed anew."""
        return await self.why_off_now(snapshot.uri) is None

    def snapshot(self, uri: str) -> Snapshot | None:
        """The document as it stands, if it is open and may be filled."""
        return None if self.why_off(uri) else self.documents[uri].snapshot(quick=True)

    def when_parsed(
        self, uri: str, handle: Callable[[], _T | Awaitable[_T]], otherwise: Callable[[], _T]
    ) -> _T | Awaitable[_T]:
        """The result of `handle` once there is a tree for it: at once, or after a parse in a thread if that takes long.

        The result of `otherwise` where the document is edited or closed before that.
        """
        document = None if self.why_off(uri) else self.documents.get(uri)
        job = None if document is None else document.parse_job()
        return handle() if document is None or job is None else self._parsed(document, job, handle, otherwise)

    async def _parsed(
        self, document: Document, job: ParseJob, handle: Callable[[], _T | Awaitable[_T]], otherwise: Callable[[], _T]
    ) -> _T:
        running = self._parsing.get(job)
        if running is None:
            running = self._parsing[job] = asyncio.create_task(asyncio.to_thread(job.run))
            running.add_done_callback(lambda _: (self._parsing.pop(job, None), document.take(job)))
        await asyncio.shield(running)  # others may wait for it, too
        if self.documents.get(document.uri) is not document or not document.take(job):
            return otherwise()
        result = handle()
        return await result if inspect.isawaitable(result) else result

    def mark_used(self, uri: str) -> None:
        """The user works in this document: of the open ones it is the one used last."""
        self.shadow.asked()
        if document := self.documents.pop(uri, None):
            self.documents[uri] = document

    async def gather_context(self, snapshot: Snapshot, offset: int) -> tuple[Snippet, ...]:
        """The parts of other files that help to fill a hole at `offset`; none where the model has no use for them."""
        return await self.context_for(snapshot, offset, self.worker.client.last_status)

    async def context_for(self, snapshot: Snapshot, offset: int, status: Status | None) -> tuple[Snippet, ...]:
        """The same for a model of this status."""
        if snapshot.uri not in self.documents:
            return ()
        wanted, folders = self.settings_of(snapshot.uri).context, self.configuration.readable_folders
        opened = [other for uri, other in reversed(self.documents.items()) if uri != snapshot.uri]
        return await other_files(self._context, snapshot, offset, wanted, status, folders=folders, opened=opened)

    async def _follow_links(self, uri: str) -> bool:
        """Whether it is known where the links on a document's path lead. What turns out to be a secret is dropped."""
        home = self.notebooks.home_of(uri)
        path = path_as_given(home)
        names = () if path is None else await self._lookup.names(path)
        if names and uri in self.documents:
            links, mine = names[1:], self.settings_of(home)
            if any(is_secret(link, mine) or is_secret(link, self.configuration.at(Path(link))) for link in links):
                self.forget(uri)
            self._links[uri] = links
        return names is not None

    def is_current(self, snapshot: Snapshot) -> bool:
        """Whether the document still stands as it did when `snapshot` was taken."""
        now = self.documents.get(snapshot.uri)
        return now is not None and now.version == snapshot.version and now.text == snapshot.text

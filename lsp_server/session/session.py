"""One editor's session: its documents and settings, and the connections to it and the worker. For one event loop."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from inference.messages import Snippet, Status
from lsp_server.context.provider import ASKED_MS, TYPING_MS, ContextSource
from lsp_server.diagnosis.model_offer import is_first_time
from lsp_server.diagnosis.models import downloads_of_others, or_use
from lsp_server.documents.change import Change
from lsp_server.documents.document import Document, Snapshot
from lsp_server.documents.notebooks import Notebooks
from lsp_server.documents.tracking import TextRange
from lsp_server.documents.uris import path_of
from lsp_server.inline import InlineService
from lsp_server.inline.suggestion import computation_of
from lsp_server.lsp.capabilities import ClientFeatures
from lsp_server.lsp.editor_connection import EditorConnection
from lsp_server.lsp.edits import range_of
from lsp_server.lsp.partner_connection import PartnerConnection
from lsp_server.lsp.status_board import CHANGED, NO_MODEL
from lsp_server.lsp.worker_connection import CLIENT_NAME, WorkerConnection
from lsp_server.next_edit import model as next_edit_model
from lsp_server.next_edit.service import NextEditService
from lsp_server.refine.refining import Refining
from lsp_server.session.parsing import Parsing
from lsp_server.session.permission import LOST, Permission
from lsp_server.session.record import Record
from lsp_server.settings.file_system import FileSystem
from lsp_server.settings.launch import edit_model_options, worker_options
from lsp_server.settings.resolver import Configuration
from lsp_server.settings.schema import PARTNER, Settings
from lsp_server.shadow.other_model import other_options
from lsp_server.shadow.shadow import Shadow
from lsp_server.syntax.lines import plain_line_ends
from lsp_server.usage.usage import Recorder, Usage
from lsp_server.worker import ClientState, WorkerClient
from lsp_server.worker.failure import SilentError, StillLoadingError

REFINED = "infill/refined"
"""Reports that the partner has written something better."""
OnChange = Callable[[str, Sequence[Change]], None]
_T = TypeVar("_T")
_ALL_LOST = (
    "an edit could not be read, nor which file it was in; close the files that are open now and open them again to get "
    "fills in them"
)


class Session:
    """One client: its documents, settings and connections. `flags` are the command line's settings; they win."""

    def __init__(self, server: LanguageServer, flags: Mapping[str, Any]) -> None:
        self.features = ClientFeatures()
        self.configuration = Configuration(flags, os.environ)
        self.documents: dict[str, Document] = {}
        self.notebooks = Notebooks(self.documents)
        self.editor = EditorConnection(server)
        self.worker = WorkerConnection(server, self.editor.show_once, self._tell_status)
        self.partner: PartnerConnection | None = None
        self.edit_model: WorkerClient | None = None
        self._connect_partner = partial(PartnerConnection, server, self.editor.show_once, self._tell_status)
        self.recorder = Recorder(lambda uri: self.settings_of(uri).statistics == "on", self._warn)
        self.usage = Usage(self.recorder.add)
        self.shadow = Shadow(self, self.recorder.add)
        self.refining = Refining(self, self._tell_refined, self._leave_out)
        propose = partial(next_edit_model.propose, self)
        self.next_edits = NextEditService(self.documents, self.follows_edits, self.recorder.add, propose)
        self.record = Record(self.documents, self.usage, self.shadow.answered, self.refining)
        self.inline = self._new_service()
        self.completions = self.inline
        """The same service, unless the client asks for both: then neither's answers make the other's stale."""
        self._context = ContextSource()
        self._parsing = Parsing(self.documents)
        self._permission = Permission(
            self.configuration, self.documents, self.notebooks, FileSystem(), self.forget, self.show_problems
        )
        self._following: set[asyncio.Task[bool]] = set()
        self._telling: asyncio.Task[None] | None = None

    @property
    def inline_services(self) -> tuple[InlineService, ...]:
        """The services that must see changes of documents."""
        return (self.inline,) if self.completions is self.inline else (self.inline, self.completions)

    @property
    def change_listeners(self) -> tuple[OnChange, ...]:
        """The listeners for changes of a document. Those that follow accepted texts come before the services, which
        report an accepted text after the change; those that ask for suggestions that may be gone come last.
        """
        services = (service.changed for service in self.inline_services)
        first = self.usage.changed, self.shadow.changed, self.refining.changed
        return (*first, *services, self.refining.drop_gone, self.next_edits.changed)

    def changed(self, uri: str, changes: Sequence[Change]) -> None:
        """A document has changed; each change applies to the text after the previous one."""
        for listener in self.change_listeners:
            listener(uri, changes)

    def saved(self, uri: str) -> None:
        """A document was saved."""
        self.usage.saved(uri)
        self.shadow.saved(uri)

    @property
    def is_computing(self) -> bool:
        """Whether a suggestion is being computed."""
        return any(service.is_computing for service in self.inline_services)

    @property
    def model_client(self) -> WorkerClient:
        """The client of the model's worker."""
        return self.worker.client

    @property
    def settings(self) -> Settings:
        """The settings outside any document; for a document use `settings_of`."""
        return self.configuration.settings

    def settings_of(self, uri: str) -> Settings:
        """The settings for a document, by its workspace folder; for a cell by that of its notebook."""
        return self.configuration.of(self.notebooks.home_of(uri))

    def follows_edits(self, uri: str) -> bool:
        """Whether a document gets next edits."""
        return self.settings_of(uri).next_edit.enabled and self.why_off(uri) is None

    def start(self, features: ClientFeatures, options: Any, folders: Sequence[str] = ()) -> None:
        """The client has sent its capabilities, its start options, and the URIs of its workspace folders."""
        self.features = features
        self.configuration.start(options, folders)
        if features.inline_completion:
            self.completions = self._new_service()
        sends_token = self.configuration.sends_token
        self.worker.configure(self.settings, sends_token=sends_token, progress=features.progress)
        sends_partner_token = self.configuration.sends_partner_token
        if self.settings.partner.url is not None and self.settings.model != PARTNER:
            self.partner = self._connect_partner(self.settings, sends_token=sends_partner_token)
        if options_of_edits := edit_model_options(self.settings):
            self.edit_model = WorkerClient(options_of_edits, name=CLIENT_NAME, on_state=self._tell_of_edit_model)
        other = other_options(self.settings, sends_token=sends_partner_token)
        self.shadow.configure(worker_options(self.settings, sends_token=sends_token), other)

    def status_report(self) -> dict[str, Any]:
        """The state of the worker and of the partner."""
        return self.worker.status.report() | {"partner": self.partner.report() if self.partner else None}

    @property
    def partner_connection(self) -> WorkerConnection | None:
        """The connection to the partner, which may be the model itself; None if there is none."""
        return self.worker if self.settings.model == PARTNER else self.partner

    def refresh_settings(self) -> None:
        """Reads the settings files that have changed."""
        if self.configuration.refresh():
            self.show_problems()

    def show_problems(self) -> None:
        """Tells the user about problems with the settings; each once."""
        for problem in self.configuration.problems:
            self._warn(problem)

    def open(self, uri: str, language_id: str, version: int, text: str) -> None:
        """Keeps a document, unless it may hold secrets. The targets of links on its path are known a moment later."""
        self.forget(uri)
        self.refresh_settings()
        if not self._permission.is_secret(uri):
            around = self.notebooks.surroundings_of(uri)
            self.documents[uri] = Document(uri, language_id, version, self.text_of(text), around)
            for service in self.inline_services:
                service.open(uri)
            following = asyncio.create_task(self._permission.follow_links(uri))
            self._following.add(following)
            following.add_done_callback(self._following.discard)

    def text_of(self, text: str) -> str:
        """Text from the editor, with the line ends that it wants to have back."""
        return plain_line_ends(text) if self.features.is_neovim else text

    def forget(self, uri: str) -> None:
        """The document was closed, or our copy of it can no longer be trusted."""
        for service in self.inline_services:
            service.forget(uri)
        self.usage.forget(uri)
        self.next_edits.forget(uri)
        self.shadow.forget(uri)
        self.refining.forget(uri)
        if document := self.documents.pop(uri, None):
            document.stop_parsing()
        self._permission.forget(uri)

    def close(self) -> None:
        """The client is gone: stops the prefetches and drops all documents, which take by far the most memory."""
        for uri in tuple(self.documents):
            self.forget(uri)
        self._context.close()
        if self._telling:
            self._telling.cancel()

    def lose(self, uri: str) -> None:
        """An edit could not be parsed, so our text no longer matches the editor's: the document gets no more fills."""
        if self._lose(uri):
            self._warn(f"an edit of {path_of(uri).rpartition('/')[2]} {LOST}")

    def lose_all(self) -> None:
        """An edit could not be parsed, nor its document identified: no document gets fills."""
        if [uri for uri in tuple(self.documents) if self._lose(uri)]:
            self._warn(_ALL_LOST)

    def found_again(self, uri: str, version: int, text: str) -> None:
        """The editor has sent the whole text of a document, which reopens it after a lost edit."""
        if (language := self._permission.lost.get(uri)) is not None:
            self.open(uri, language, version, text)

    def _new_service(self) -> InlineService:
        return InlineService(
            self.documents, self.worker, self.gather_context, self.may_send, self.record, self._tell_why
        )

    def _tell_why(self, failure: StillLoadingError | SilentError) -> None:
        """Tells why an explicit request found nothing; that the model is loading, once per load."""
        if isinstance(failure, SilentError) or self.worker.is_news_of_load():
            self.editor.show(str(failure), types.MessageType.Warning)

    def _tell_status(self, _report: dict[str, Any]) -> None:
        self.editor.notify(CHANGED, self.status_report())
        if self.worker.status.makes_do and not self.features.plugin and is_first_time():
            self._telling = asyncio.create_task(self._tell_of_models())

    async def _tell_of_models(self) -> None:
        found = await asyncio.to_thread(downloads_of_others)
        device = self.worker.status.report()["device"] or ""
        self.editor.show_once(NO_MODEL + or_use(found, device), types.MessageType.Info)

    def _tell_refined(self, uri: str, what: str | TextRange) -> None:
        """There is something better than a suggestion, or than a recent fill."""
        if isinstance(what, str):
            self.editor.notify(REFINED, {"uri": uri, "id": what})
            return
        place = range_of(self.documents[uri].lines, what.start, what.end, self.features.encoding)
        self.editor.notify(REFINED, {"uri": uri, "range": place})

    def _leave_out(self, uri: str, what: str | TextRange) -> None:
        """The partner improves this: exclude it from the sample in any case, or all the draft's wins would stay in."""
        if isinstance(what, str):
            self.shadow.leave_out(uri, computation_of(what))
        else:
            self.shadow.leave_out(uri, places=[what])

    def _tell_of_edit_model(self, state: ClientState, detail: str) -> None:
        if state is ClientState.FAILED and detail:
            self._warn(detail)

    def _warn(self, message: str) -> None:
        self.editor.show_once(message, types.MessageType.Warning)

    def _lose(self, uri: str) -> bool:
        """Whether the document was open. One that was lost before stays lost."""
        document = self.documents.get(uri)
        language = document.language_id if document else self._permission.lost.get(uri)
        self.forget(uri)
        if language is not None:
            self._permission.lost[uri] = language
        return document is not None

    def why_off(self, uri: str) -> str | None:
        """Why a document gets no fills; None if it does. Uses what is known of its links and follows none."""
        return self._permission.why_off(uri)

    async def why_off_now(self, uri: str) -> str | None:
        """The same, after following its links again: for a text that goes to the model, not for each keystroke."""
        return await self._permission.why_off_now(uri)

    async def may_send(self, snapshot: Snapshot) -> bool:
        """Whether the model may see a document, after following its links again."""
        return await self.why_off_now(snapshot.uri) is None

    def snapshot(self, uri: str) -> Snapshot | None:
        """The current document, if it is open and may be filled."""
        return None if self.why_off(uri) else self.documents[uri].snapshot(quick=True)

    def when_parsed(
        self, uri: str, handle: Callable[[], _T | Awaitable[_T]], otherwise: Callable[[], _T]
    ) -> _T | Awaitable[_T]:
        """The result of `handle` once there is a tree for it, or of `otherwise` if the document is edited first."""
        document = None if self.why_off(uri) else self.documents.get(uri)
        job = None if document is None else document.parse_job()
        return handle() if document is None or job is None else self._parsing.parsed(document, job, handle, otherwise)

    def mark_used(self, uri: str) -> None:
        """The user works in this document, which makes it the most recently used."""
        self.shadow.asked()
        if document := self.documents.pop(uri, None):
            self.documents[uri] = document

    async def gather_context(self, snapshot: Snapshot, offset: int, invoked: bool) -> tuple[Snippet, ...]:
        """The parts of other files that help to fill a hole at `offset`; none if the model cannot use them."""
        patience_ms = ASKED_MS if invoked else TYPING_MS
        return await self.context_for(snapshot, offset, self.model_client.last_status, patience_ms)

    async def context_for(
        self, snapshot: Snapshot, offset: int, status: Status | None, max_ms: int = ASKED_MS
    ) -> tuple[Snippet, ...]:
        """The same for a model of this status, as far as found within `max_ms`."""
        await self._permission.follow_links(snapshot.uri)
        if snapshot.uri not in self.documents:
            return ()
        wanted = self.settings_of(snapshot.uri).context
        opened = [other for uri, other in reversed(self.documents.items()) if uri != snapshot.uri]
        return await self._context.for_hole(
            snapshot, offset, wanted, status, configuration=self.configuration, opened=opened, max_ms=max_ms
        )

    def is_current(self, snapshot: Snapshot) -> bool:
        """Whether the document is unchanged since `snapshot`."""
        now = self.documents.get(snapshot.uri)
        return now is not None and now.version == snapshot.version and now.text == snapshot.text

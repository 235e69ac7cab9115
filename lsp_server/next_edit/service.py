"""The next edits of a session's documents: when to search for them, which one to offer, and its outcome.

Belongs to one event loop; searches in threads. Edits of other documents are offered once the user goes there.
"""

import asyncio
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event as Stop
from typing import TYPE_CHECKING

from lsp_server.documents.change import TextChange, TextRange, trim_equal_ends
from lsp_server.documents.document import Document, Snapshot
from lsp_server.features import AcceptedEvent, Feature, ShownEvent
from lsp_server.next_edit import model_edits
from lsp_server.next_edit.cross_file import ChangedDocument, NextEditInput
from lsp_server.next_edit.edit_history import EditHistory
from lsp_server.next_edit.edits import NextEdit, nearest_edit
from lsp_server.next_edit.finder import find_next_edits
from lsp_server.syntax.lines import is_word_char

if TYPE_CHECKING:
    from lsp_server.session import Session

PAUSE_S = 0.3
"""The pause after the last edit; none after accepting an offer."""
_MAX_DISMISSED = 100
_MAX_OFFERS = 16
_MAX_OTHER_DOCUMENTS = 4
_MAX_CLOSED_DOCUMENTS = 50


@dataclass
class Offer:
    """An edit offered for one version of a document, its `change`, and the hash of the resulting text."""

    id: str
    edit: NextEdit
    change: TextChange
    result_hash: int
    is_reported: bool = False
    is_accepted: bool = False
    """Whether it was accepted; its change may arrive before or after that."""


@dataclass
class _State:
    """One document. `edits` follow from its recent changes, None until searched; `search` finds those of the rules.
    `stop` is set when these are outdated.

    `proposed` are a model's edits: after one is accepted, the others remain valid. `accepted` are the accepted edits,
    with the current ranges of their texts.
    """

    history: EditHistory = field(default_factory=EditHistory)
    changed_s: float = 0.0
    last_change: TextChange | None = None
    stop: Stop = field(default_factory=Stop)
    edits: list[NextEdit] | None = None
    search: asyncio.Task[list[NextEdit]] | None = None
    proposed: Sequence[NextEdit] = ()
    offers: dict[str, Offer] = field(default_factory=dict)
    dismissed: list[NextEdit] = field(default_factory=list)
    accepted: list[tuple[TextRange, TextChange]] = field(default_factory=list)
    is_quiet: bool = False
    """Whether the user has just undone an accepted edit: then none is offered."""
    requests: set[asyncio.Future[Sequence[NextEdit]]] = field(default_factory=set)

    def end(self) -> None:
        """Ends searches and requests, since the text has changed."""
        self.stop.set()
        for request in tuple(self.requests):
            request.cancel()


class NextEditService(Feature):
    """The next edits of a session's documents. It must see every change of a document."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._states: dict[str, _State] = {}
        self._closed: dict[str, tuple[int, list[NextEdit]]] = {}
        """The dismissed edits of closed documents, with the hash of each document's text."""
        self._background_search: asyncio.Task[Offer | None] | None = None

    def opened(self, uri: str) -> None:
        """Restores the dismissed edits of a document that is opened again with the same text."""
        text_hash, dismissed = self._closed.pop(uri, (0, []))
        if dismissed and text_hash == hash(self._session.documents[uri].text):
            self._states[uri] = _State(dismissed=dismissed)

    def changed(self, uri: str, changes: Sequence[TextChange]) -> None:
        """Handles a change: it outdates all searches, and the document's own offers."""
        if not self._session.offers_next_edits(uri):
            self.closed(uri)
            return
        state = self._states.setdefault(uri, _State())
        for any_state in self._states.values():  # an edit may follow in another document
            any_state.end()
            any_state.stop = Stop()
            any_state.edits = any_state.search = None
        text = self._session.documents[uri].text
        offer = next((offer for offer in state.offers.values() if offer.result_hash == hash(text)), None)
        state.proposed = [edit for edit in state.proposed if offer and edit != offer.edit]
        if offer is not None:
            state.proposed = _shift_edits(state.proposed, [offer.change])
            state.history.end_current_edit()
        state.history.changed(changes)
        state.changed_s = 0.0 if offer else time.monotonic()
        state.last_change = changes[-1] if changes else state.last_change
        state.dismissed = _shift_edits(state.dismissed, changes)
        self._follow_accepted(state, changes, text)
        if offer is not None:
            accepted_range = TextRange(offer.change.start, offer.change.start + len(offer.edit.text))
            state.accepted = [*state.accepted, (accepted_range, offer.change)][-_MAX_DISMISSED:]

    def _follow_accepted(self, state: _State, changes: Sequence[TextChange], text: str) -> None:
        """Counts an accepted edit as rejected if it was undone, and then offers nothing until the next change."""
        accepted = state.accepted
        for change in map(trim_equal_ends, changes):
            accepted = [
                (moved, edit) for range_, edit in accepted if (moved := range_.after_change(change)) is not None
            ]
        undone = [(range_, edit) for range_, edit in accepted if range_.slice(text) == edit.removed]
        state.accepted = [pair for pair in accepted if pair not in undone]
        state.is_quiet = bool(undone)
        rejected = [NextEdit(range_.start, range_.end, edit.added) for range_, edit in undone]
        state.dismissed = [*state.dismissed, *rejected][-_MAX_DISMISSED:]

    def closed(self, uri: str) -> None:
        state = self._states.pop(uri, None)
        if state is None:
            return
        state.end()
        document = self._session.documents.get(uri)
        if document and state.dismissed and self._session.disabled_reason(uri) is None:
            self._closed[uri] = (hash(document.text), state.dismissed)
            while len(self._closed) > _MAX_CLOSED_DOCUMENTS:
                del self._closed[next(iter(self._closed))]

    async def next_offer(self, document: Document, cursor: int) -> Offer | None:
        """Returns the offer at the cursor once the user pauses; None if nothing follows or the text changes first."""
        if not self._session.offers_next_edits(document.uri):
            return None
        state = self._states.setdefault(document.uri, _State())
        stop = state.stop
        for other in self._states.values():
            if other is not state:  # the user has left it: its next change starts a new edit
                other.history.end_current_edit()
        changed_s = max((other.changed_s for other in self._states.values()), default=0.0)
        await asyncio.sleep(max(changed_s + PAUSE_S - time.monotonic(), 0))
        snapshot = None if stop.is_set() or state.is_quiet else await self._session.parsed_snapshot(document)
        if snapshot is None or stop.is_set() or is_name_half_deleted(state.last_change, snapshot.text, cursor):
            return None
        edit = nearest_edit(await self.following_edits(snapshot, cursor), cursor)
        return None if edit is None or stop.is_set() else self.offer_for(document.uri, edit)

    async def following_edits(self, snapshot: Snapshot, cursor: int, *, by_rules: bool = False) -> list[NextEdit]:
        """Returns the edits that follow from the recent changes, without rejected ones; none if the text changes.

        `by_rules`: does not send a request to a model.
        """
        if not self._session.offers_next_edits(snapshot.uri):
            return []
        state = self._states.setdefault(snapshot.uri, _State())
        stop = state.stop
        if state.edits is None:
            old_texts = list(state.history.old_texts(snapshot.text))
            other_documents = self._other_documents(snapshot.uri)
            if state.search is None:
                search = asyncio.to_thread(find_next_edits, snapshot, old_texts, other_documents, stop.is_set)
                state.search = asyncio.create_task(search)
            edits = await asyncio.shield(state.search) or list(state.proposed)
            if by_rules and not edits:
                return []
            if not edits and (state.last_change is not None or other_documents) and not stop.is_set():
                edit_input = NextEditInput(snapshot, old_texts, cursor, other_documents)
                request = asyncio.ensure_future(model_edits.propose_model_edits(self._session, edit_input))
                state.requests.add(request)
                request.add_done_callback(state.requests.discard)
                try:
                    state.proposed = edits = list(await request)
                except asyncio.CancelledError:
                    if not stop.is_set():  # otherwise the text has changed, which has cancelled the request
                        raise
            if not stop.is_set():
                state.edits = edits
        if stop.is_set():
            return []
        return [edit for edit in state.edits or () if edit not in state.dismissed]

    def search_in_background(self, document: Document, cursor: int) -> None:
        """Asks the model in the background once the user pauses, so that a later code action finds its edits."""
        if self._background_search is None or self._background_search.done():
            self._background_search = asyncio.create_task(self.next_offer(document, cursor))

    def _other_documents(self, uri: str) -> list[ChangedDocument]:
        """The other documents with recent edits, the last changed first."""
        documents = self._session.documents
        follows_edits = self._session.offers_next_edits
        uris = [other for other in self._states if other != uri and other in documents and follows_edits(other)]
        uris.sort(key=lambda other: self._states[other].changed_s, reverse=True)
        notebook_of = self._session.notebooks.notebook_or_self
        text = documents[uri].text
        own = [text, *self._states[uri].history.old_texts(text)]
        changed = []
        for other in uris[:_MAX_OTHER_DOCUMENTS]:
            document = documents[other]
            if old_texts := [*self._states[other].history.old_texts(document.text)]:
                cell_texts = own if notebook_of(other) == notebook_of(uri) else ()
                changed.append(ChangedDocument(other, document.language_id, document.text, old_texts, cell_texts))
        return changed

    def offer_for(self, uri: str, edit: NextEdit) -> Offer:
        """Returns the offer of an edit of the current text: the same object each time."""
        offers = self._states.setdefault(uri, _State()).offers
        text = self._session.documents[uri].text
        change = edit.as_text_change(text)
        result = hash(change.apply_to(text))
        same = (offer for offer in offers.values() if (offer.edit, offer.result_hash) == (edit, result))
        offer = next((offer for offer in same if not offer.is_accepted), None)
        if offer is None:
            offer = Offer(f"next-{secrets.token_hex(8)}", edit, change, result)
            offers[offer.id] = offer
            while len(offers) > _MAX_OFFERS:
                del offers[next(iter(offers))]
        return offer

    def mark_shown(self, uri: str, offer_id: str) -> None:
        if offer := self._open_offer(uri, offer_id):
            self._report_shown(uri, offer)

    def accept(self, uri: str, offer_id: str) -> None:
        """The user has accepted an offer, so the next one comes without a pause. The offer is kept to recognise its
        change, which may come later, and to notice when it is undone or redone.
        """
        offer = self._open_offer(uri, offer_id)
        if offer is not None:
            offer.is_accepted = True
            self._report_shown(uri, offer)
            self._session.features.accepted(uri, AcceptedEvent(offer.id))
            self._states[uri].changed_s = 0.0

    def dismiss(self, uri: str, offer_id: str) -> None:
        """The user rejects an offer, which does not return while the text is unchanged."""
        offer = self._open_offer(uri, offer_id)
        document = self._session.documents.get(uri)
        if offer is None or document is None:
            return
        state = self._states[uri]
        del state.offers[offer_id]
        state.dismissed = [*state.dismissed, offer.edit][-_MAX_DISMISSED:]
        self._report_shown(uri, offer)
        self._session.features.rejected(uri, offer.id)

    def _open_offer(self, uri: str, offer_id: str) -> Offer | None:
        """The offer with this id, unless it was accepted or dismissed."""
        offer = self._states[uri].offers.get(offer_id) if uri in self._states else None
        return None if offer is None or offer.is_accepted else offer

    def _report_shown(self, uri: str, offer: Offer) -> None:
        if not offer.is_reported:
            offer.is_reported = True
            self._session.features.shown(uri, ShownEvent(offer.id, "next edit"))


def _shift_edits(edits: Sequence[NextEdit], changes: Sequence[TextChange]) -> list[NextEdit]:
    """The edits after the changes, without those that one of them touched."""
    for change in changes:
        edits = [moved for edit in edits if (moved := edit.after_change(change)) is not None]
    return list(edits)


def is_name_half_deleted(last: TextChange | None, text: str, cursor: int) -> bool:
    """Whether the end of a name was just deleted before the cursor: its replacement is yet to come."""
    if last is None or last.added or last.start != cursor:
        return False
    return is_word_char(text[cursor - 1 : cursor]) and not is_word_char(text[cursor : cursor + 1])

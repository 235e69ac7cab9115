"""The next edits of a session's documents: when to look for them, which one to offer, and its outcome.

Belongs to one event loop; looks in threads. A change may bring edits of other documents, offered once the user goes
there.
"""

import asyncio
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event as Stop
from typing import TYPE_CHECKING

from lsp_server.documents.change import TextChange, TextRange, minimise
from lsp_server.documents.document import Document, Snapshot
from lsp_server.fill.feature import Feature, Shown, Taken
from lsp_server.next_edit import model
from lsp_server.next_edit.cross_file import ChangedDocument, Situation
from lsp_server.next_edit.edit_history import RecentEdits
from lsp_server.next_edit.finder import nearest, next_edits
from lsp_server.next_edit.renames import NextEdit
from lsp_server.syntax.lines import is_word

if TYPE_CHECKING:
    from lsp_server.session import Session

PAUSE_S = 0.3
"""The pause after the last edit; none after accepting an offer."""
_MOST_DISMISSED = 100
_MOST_OFFERED = 16
_MOST_BESIDE = 4
_MOST_CLOSED = 50


@dataclass
class Offer:
    """An edit offered for one version of a document, and the `change` that it is; `result` hashes the text after it."""

    id: str
    edit: NextEdit
    change: TextChange
    result: int
    is_told: bool = False
    is_accepted: bool = False
    """Accepted, before its change arrives or after it."""


@dataclass
class _State:
    """One document. `known` are the edits found for its text, once searched, `search` those of the rules alone; `stop`
    is set when these are out of date.

    `proposed` are a model's: those left are still good once the user has accepted one. `taken` are the accepted edits,
    and where their text is now.
    """

    recent: RecentEdits = field(default_factory=RecentEdits)
    changed_s: float = 0.0
    last: TextChange | None = None
    stop: Stop = field(default_factory=Stop)
    known: list[NextEdit] | None = None
    search: asyncio.Task[list[NextEdit]] | None = None
    proposed: Sequence[NextEdit] = ()
    offers: dict[str, Offer] = field(default_factory=dict)
    dismissed: list[NextEdit] = field(default_factory=list)
    taken: list[tuple[TextRange, TextChange]] = field(default_factory=list)
    is_quiet: bool = False
    """Whether the user has just undone an accepted edit, and so wants none now."""
    asking: set[asyncio.Future[Sequence[NextEdit]]] = field(default_factory=set)

    def end(self) -> None:
        """The text is out of date."""
        self.stop.set()
        for each in tuple(self.asking):
            each.cancel()


class NextEditService(Feature):
    """The next edits of a session's documents. It must see every change of a document."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._states: dict[str, _State] = {}
        self._closed: dict[str, tuple[int, list[NextEdit]]] = {}
        """What the user dismissed in documents that are now closed, each with the hash of its text."""
        self._ahead: asyncio.Task[list[NextEdit]] | None = None

    def opened(self, uri: str) -> None:
        """Dismissed edits stay dismissed in a document that is opened again with the same text."""
        text_hash, dismissed = self._closed.pop(uri, (0, []))
        if dismissed and text_hash == hash(self._session.documents[uri].text):
            self._states[uri] = _State(dismissed=dismissed)

    def changed(self, uri: str, changes: Sequence[TextChange]) -> None:
        """A document has changed: every search and its own offers are out of date."""
        if not self._session.follows_edits(uri):
            self.closed(uri)
            return
        state = self._states.setdefault(uri, _State())
        for each in self._states.values():  # an edit may follow in another document
            each.end()
            each.stop = Stop()
            each.known = each.search = None
        text = self._session.documents[uri].text
        offer = next((each for each in state.offers.values() if each.result == hash(text)), None)
        state.proposed = [edit for edit in state.proposed if offer and edit != offer.edit]
        if offer is not None:
            state.proposed = _moved(state.proposed, [offer.change])
            state.recent.close()
        state.recent.changed(changes)
        state.changed_s = 0.0 if offer else time.monotonic()
        state.last = changes[-1] if changes else state.last
        state.dismissed = _moved(state.dismissed, changes)
        self._follow_taken(state, changes, text)
        if offer is not None:
            place = TextRange(offer.change.start, offer.change.start + len(offer.edit.text))
            state.taken = [*state.taken, (place, offer.change)][-_MOST_DISMISSED:]

    def _follow_taken(self, state: _State, changes: Sequence[TextChange], text: str) -> None:
        """An accepted edit that is undone is rejected, and the others wait for the next change."""
        taken = state.taken
        for change in map(minimise, changes):
            taken = [(moved, edit) for place, edit in taken if (moved := place.after(change)) is not None]
        undone = [(place, edit) for place, edit in taken if place.slice(text) == edit.removed]
        state.taken = [each for each in taken if each not in undone]
        state.is_quiet = bool(undone)
        rejected = [NextEdit(place.start, place.end, edit.added) for place, edit in undone]
        state.dismissed = [*state.dismissed, *rejected][-_MOST_DISMISSED:]

    def closed(self, uri: str) -> None:
        state = self._states.pop(uri, None)
        if state is None:
            return
        state.end()
        document = self._session.documents.get(uri)
        if document and state.dismissed and self._session.why_off(uri) is None:
            self._closed[uri] = (hash(document.text), state.dismissed)
            while len(self._closed) > _MOST_CLOSED:
                del self._closed[next(iter(self._closed))]

    async def ask(self, document: Document, cursor: int) -> Offer | None:
        """The offer at the cursor, once the user pauses; None if nothing follows, or if the text changes first."""
        if not self._session.follows_edits(document.uri):
            return None
        state = self._states.setdefault(document.uri, _State())
        stop = state.stop
        for each in self._states.values():
            if each is not state:  # the user has left it: what comes there next is another edit
                each.recent.close()
        changed_s = max((each.changed_s for each in self._states.values()), default=0.0)
        await asyncio.sleep(max(changed_s + PAUSE_S - time.monotonic(), 0))
        snapshot = None if stop.is_set() or state.is_quiet else await self._session.parsed(document)
        if snapshot is None or stop.is_set() or _is_half_deleted(state.last, snapshot.text, cursor):
            return None
        edit = nearest(await self.known(snapshot, cursor), cursor)
        return None if edit is None or stop.is_set() else self.offer(document.uri, edit)

    async def known(self, snapshot: Snapshot, cursor: int, *, quick: bool = False) -> list[NextEdit]:
        """The edits that follow, without rejected ones; none if the text changes. `quick`: without the model."""
        if not self._session.follows_edits(snapshot.uri):
            return []
        state = self._states.setdefault(snapshot.uri, _State())
        stop = state.stop
        if state.known is None:
            earlier = list(state.recent.earlier(snapshot.text))
            others = self._changed_beside(snapshot.uri)
            if state.search is None:
                search = asyncio.to_thread(next_edits, snapshot, earlier, others, stop.is_set)
                state.search = asyncio.create_task(search)
            found = await asyncio.shield(state.search) or list(state.proposed)
            if quick and not found:
                return []
            if not found and (state.last is not None or others) and not stop.is_set():
                situation = Situation(snapshot, earlier, cursor, others)
                asking = asyncio.ensure_future(model.propose(self._session, situation))
                state.asking.add(asking)
                asking.add_done_callback(state.asking.discard)
                try:
                    state.proposed = found = list(await asking)
                except asyncio.CancelledError:
                    if not stop.is_set():  # otherwise the text has changed, which has cancelled the request
                        raise
            if not stop.is_set():
                state.known = found
        if stop.is_set():
            return []
        return [edit for edit in state.known or () if edit not in state.dismissed]

    def look_ahead(self, snapshot: Snapshot, cursor: int) -> None:
        """Asks the model in the background, so that a later quick question finds its edits."""
        if self._ahead is None or self._ahead.done():
            self._ahead = asyncio.create_task(self.known(snapshot, cursor))

    def _changed_beside(self, uri: str) -> list[ChangedDocument]:
        """The other documents with recent edits, the last changed first."""
        documents = self._session.documents
        beside = [each for each in self._states if each != uri and each in documents]
        beside = [each for each in beside if self._session.follows_edits(each)]
        beside.sort(key=lambda each: self._states[each].changed_s, reverse=True)
        home_of = self._session.notebooks.notebook_or_self
        text = documents[uri].text
        own = [text, *self._states[uri].recent.earlier(text)]
        found = []
        for each in beside[:_MOST_BESIDE]:
            if earlier := [*self._states[each].recent.earlier(documents[each].text)]:
                seen = own if home_of(each) == home_of(uri) else ()
                document = documents[each]
                found.append(ChangedDocument(each, document.language_id, document.text, earlier, seen))
        return found

    def offer(self, uri: str, edit: NextEdit) -> Offer:
        """The offer of an edit of the current text: the same object each time."""
        offers = self._states.setdefault(uri, _State()).offers
        text = self._session.documents[uri].text
        change = edit.change(text)
        result = hash(change.applied(text))
        same = (each for each in offers.values() if (each.edit, each.result) == (edit, result))
        known = next((each for each in same if not each.is_accepted), None)
        if known is None:
            known = Offer(f"next-{secrets.token_hex(8)}", edit, change, result)
            offers[known.id] = known
            while len(offers) > _MOST_OFFERED:
                del offers[next(iter(offers))]
        return known

    def show(self, uri: str, offer_id: str) -> None:
        """The user sees an offer."""
        if offer := self._find(uri, offer_id):
            self._tell_shown(uri, offer)

    def accept(self, uri: str, offer_id: str) -> None:
        """The user has accepted an offer: the next one comes without a pause. The change may come later: the offer is
        kept to know it, and to know when it is redone.
        """
        offer = self._find(uri, offer_id)
        if offer is not None:
            offer.is_accepted = True
            self._tell_shown(uri, offer)
            self._session.broadcast.taken(uri, Taken(offer.id))
            self._states[uri].changed_s = 0.0

    def dismiss(self, uri: str, offer_id: str) -> None:
        """The user rejects an offer: it never returns while that text is unchanged."""
        offer = self._find(uri, offer_id)
        document = self._session.documents.get(uri)
        if offer is None or document is None:
            return
        state = self._states[uri]
        del state.offers[offer_id]
        state.dismissed = [*state.dismissed, offer.edit][-_MOST_DISMISSED:]
        self._tell_shown(uri, offer)
        self._session.broadcast.rejected(uri, offer.id)

    def _find(self, uri: str, offer_id: str) -> Offer | None:
        """The offer with this id, unless it was accepted or dismissed."""
        offer = self._states[uri].offers.get(offer_id) if uri in self._states else None
        return None if offer is None or offer.is_accepted else offer

    def _tell_shown(self, uri: str, offer: Offer) -> None:
        if not offer.is_told:
            offer.is_told = True
            self._session.broadcast.shown(uri, Shown(offer.id, "next edit"))


def _moved(edits: Sequence[NextEdit], changes: Sequence[TextChange]) -> list[NextEdit]:
    """The edits after the changes, without those that one of them touched."""
    for change in changes:
        edits = [moved for each in edits if (moved := each.after(change)) is not None]
    return list(edits)


def _is_half_deleted(last: TextChange | None, text: str, cursor: int) -> bool:
    """Whether the end of a name was just deleted before the cursor: its replacement is yet to come."""
    if last is None or last.added or last.start != cursor:
        return False
    return is_word(text[cursor - 1 : cursor]) and not is_word(text[cursor : cursor + 1])

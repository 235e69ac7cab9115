"""Where requests for inline completions are answered: from memory, from work that is under way, or by new work.

Newest wins: a newer request of a document is the only one that is answered with something, except that what the user
asked for is not stopped by what merely appears while typing. Work outlives its request for a moment, because an editor
cancels a request with each key and asks again: if what was typed agrees with the hole, the next request takes over.
Belongs to one event loop.
"""

import asyncio
from collections.abc import Mapping, Sequence

from lsp_server.documents.change import Change
from lsp_server.documents.document import Document
from lsp_server.fill.pipeline import Budget
from lsp_server.inline.computation import NOTHING, ComputationOutcome
from lsp_server.inline.document_state import Gather, InlineDocument, Shared, Workers, nothing_gathered
from lsp_server.inline.prefetch import Prefetch
from lsp_server.inline.request import InlineRequest, TakeSnapshot

Answer = ComputationOutcome | asyncio.Future[ComputationOutcome]


class InlineService:
    """All inline completions of a session. It must be told of every change of a document."""

    def __init__(self, documents: Mapping[str, Document], workers: Workers, gather: Gather = nothing_gathered) -> None:
        self._documents = documents
        self._shared = Shared(workers, gather)
        self._ahead = Prefetch(self._shared)

    def open(self, uri: str) -> None:
        """A document was opened: nothing is known of it yet."""
        self.forget(uri)
        self._shared.pages[uri] = InlineDocument(self._documents[uri], self._shared)

    def changed(self, uri: str, changes: Sequence[Change]) -> None:
        """The document's text has changed; what is being computed goes on where the changes agree with it."""
        page = self._shared.pages.get(uri)
        if page is not None and changes:
            self._shared.debounce.typed(asyncio.get_running_loop().time())
            page.follow(changes)
            self._ahead.changed(uri)

    def forget(self, uri: str) -> None:
        """The document was closed, or what we have of it can no longer be trusted."""
        self._ahead.forget(uri)
        if page := self._shared.pages.pop(uri, None):
            for work in tuple(page.running):
                page.end(work)

    def ask(self, uri: str, question: InlineRequest, snapshot: TakeSnapshot) -> Answer:
        """The suggestions for a cursor, best first: at once where they are known, else when they are computed.

        `snapshot` is asked for the document only where something has to be computed. Cancelling what is returned
        cancels the request; otherwise it has a result, which is empty when something newer came.
        """
        page = self._shared.pages.get(uri)
        if page is None:
            return NOTHING
        page.supersede(keep_invoked=not question.invoked)
        answer = page.answer(question, snapshot)
        for work in tuple(page.running):
            if not work.waiters and not work.ahead:
                page.end(work)
        return answer

    def rejected(self, uri: str, suggestion_id: str) -> None:
        """The user does not want this suggestion."""
        if page := self._shared.pages.get(uri):
            page.memory.reject(suggestion_id)

    def shown(self, uri: str, suggestion_id: str) -> str | None:
        """What was last shown of a suggestion; None where it is no longer known."""
        page = self._shared.pages.get(uri)
        found = page.memory.get(suggestion_id) if page else None
        return None if found is None or found.shown_from is None else found.text[found.shown_from :]

    def accepted(self, uri: str, suggestion_id: str, length: int | None, effort: Budget | None, marker: str) -> None:
        """The first `length` characters of what was shown were accepted, or (None) all of them.

        What comes next is computed ahead, with `effort`; where that is None it is not.
        """
        page = self._shared.pages.get(uri)
        found = page.memory.get(suggestion_id) if page else None
        if found is not None:
            end = len(found.text) if length is None else (found.shown_from or 0) + length
            self._ahead.accepted(uri, found, found.text[:end], effort, marker)

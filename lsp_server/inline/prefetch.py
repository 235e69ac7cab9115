"""What is computed before anybody asks: what follows a suggestion that was accepted, so that it is there at once.

After the whole of it, that is the hole behind it; after a part, its rest once more, now that its start is settled. It
gives way to everything else.
"""

from dataclasses import dataclass, replace

from lsp_server import carve
from lsp_server.fill.pipeline import Budget
from lsp_server.inline.anchor import Anchor
from lsp_server.inline.computation import Computation
from lsp_server.inline.document_state import InlineDocument, Shared
from lsp_server.inline.hole import hole_for
from lsp_server.inline.suggestion import Cursor, Suggestion


@dataclass(frozen=True)
class _Accepted:
    """`text`, counted from the start of the suggestion's place, was accepted."""

    suggestion_id: str
    text: str
    effort: Budget | None
    marker: str


class Prefetch:
    """What was accepted of each document and is not in its text yet: editors tell us before or after they change it."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._accepted: dict[str, _Accepted] = {}

    def accepted(self, uri: str, suggestion: Suggestion, text: str, effort: Budget | None, marker: str) -> None:
        """`text`, the start of `suggestion` or all of it, was accepted; without `effort` nothing is computed."""
        self._accepted[uri] = _Accepted(suggestion.id, text, effort, marker)
        self.changed(uri)

    def forget(self, uri: str) -> None:
        """The document was closed."""
        self._accepted.pop(uri, None)

    def changed(self, uri: str) -> None:
        """The text has changed, or something was accepted: go on from there once the text holds it."""
        accepted, page = self._accepted.get(uri), self._shared.pages.get(uri)
        if accepted is None:
            return
        found = page.memory.get(accepted.suggestion_id) if page else None
        if page is None or found is None:
            del self._accepted[uri]
        elif page.document.text.startswith(accepted.text, found.place.start):
            del self._accepted[uri]
            is_whole = accepted.text == found.text
            if is_whole:
                page.memory.accept(found.id)
            if accepted.effort is not None and not any(work.waiters for _, work in self._shared.all_running()):
                _compute(page, found, accepted, accepted.effort, is_whole=is_whole)


def _compute(page: InlineDocument, found: Suggestion, accepted: _Accepted, effort: Budget, *, is_whole: bool) -> None:
    snapshot, start = page.document.snapshot(), found.place.start
    cursor = start + len(accepted.text)
    hole: carve.Span | None
    if is_whole:
        hole = hole_for(snapshot, Cursor(cursor), accepted.marker)
    else:
        hole = replace(found.hole, start=start, end=found.place.end, starts_with=accepted.text)
    if hole is not None:
        place = Anchor.of(snapshot.text, hole.start, hole.end, cursor)
        page.begin(Computation(snapshot, hole, place, effort, invoked=False, marker=accepted.marker, ahead=True))

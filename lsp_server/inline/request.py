"""A request for inline completions at a cursor, and the hole it asks to fill."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from inference.messages import Draft
from lsp_server import holes
from lsp_server.documents.document import Snapshot
from lsp_server.fill.drafts import HoleDraft
from lsp_server.fill.pipeline import FillBudget
from lsp_server.inline.anchor import Cursor
from lsp_server.inline.suggestion import ShownSuggestions

OnDraft = Callable[[Draft, Callable[[str], list[HoleDraft]]], None]
"""Receives each draft, together with a function that renders its hole for a given document text. If the user has typed
part of the fill, it renders only the remainder, which may be empty.
"""


@dataclass(eq=False)
class InlineRequest:
    """A request at a cursor, which follows the text. An automatic request first waits `pause_s`.

    `wants_empty`: ranges are empty where nothing after the cursor is replaced.
    """

    cursor: Cursor
    budget: FillBudget
    marker: str
    invoked: bool = False
    pause_s: float = 0.0
    on_draft: OnDraft | None = None
    wants_empty: bool = False
    make_reply: Callable[[ShownSuggestions], Any] = list
    """Builds the LSP reply from the suggestions, best first, using the document as it is when the reply is sent."""
    result: "asyncio.Future[Any]" = field(init=False, repr=False)
    """The reply, once the request waits for one; may be cancelled."""

    @property
    def is_open(self) -> bool:
        return not self.result.done()

    def answer(self, suggestions: ShownSuggestions = ()) -> None:
        if self.is_open:
            self.result.set_result(self.make_reply(suggestions))


def hole_for_ghost_text(snapshot: Snapshot, cursor: Cursor, marker: str) -> holes.HoleSpan | None:
    """The hole at a cursor if it is on one line, since an editor can show a fill nowhere else.

    With an item selected in the editor's list, the fill extends that item and replaces the same range.
    """
    hole = holes.hole_at_cursor(snapshot, cursor.offset, marker)
    if hole is None or snapshot.lines.line_of(hole.start) != snapshot.lines.line_of(hole.end):
        return None
    if cursor.selected is None:
        return hole
    start, end, text = cursor.selected
    if not start <= cursor.offset <= end:
        return None
    return replace(hole, start=start, end=max(hole.end, end), starts_with=text)

"""What one request for inline completions asks for."""

from collections.abc import Callable
from dataclasses import dataclass

from inference.messages import Draft
from lsp_server.carve import Span
from lsp_server.documents.document import Snapshot
from lsp_server.fill.pipeline import Budget
from lsp_server.inline.anchor import Anchor
from lsp_server.inline.suggestion import Cursor

OnDraft = Callable[[Draft, "Drafted"], None]
TakeSnapshot = Callable[[], Snapshot | None]
"""The document as it stands; None where it may not be filled any more."""


@dataclass(frozen=True)
class InlineRequest:
    """`floor` and `pause_s` are for what appears by itself: the least confidence, and the pause in typing before it."""

    cursor: Cursor
    effort: Budget
    marker: str
    invoked: bool = False
    floor: float = 0.0
    pause_s: float = 0.0
    on_draft: OnDraft | None = None


@dataclass(frozen=True)
class Drafted:
    """What a draft is of: `hole` of `snapshot`, which is at `place` of the document as it stands now."""

    snapshot: Snapshot
    hole: Span
    place: Anchor
    cursor: int

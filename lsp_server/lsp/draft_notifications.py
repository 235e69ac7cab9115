"""`infill/draft` notifications: what each hole holds while it is denoised (editors/README.md has the contract).

Knows no connection: it is given the function that sends.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

from lsprotocol.types import ProgressToken

from inference.messages import Draft
from lsp_server.documents.document import Document, Snapshot
from lsp_server.documents.positions import Encoding, LineIndex
from lsp_server.fill.drafts import HoleDraft

METHOD = "infill/draft"
INTERVAL_S = 1 / 30
"""Drafts that follow sooner are left out: no eye could follow them."""
PAUSE_RATIO = 4
"""After a draft, pause this many times as long as it took to make, so that typing does not wait for drafts."""

Kind = Literal["inline", "action"]
Send = Callable[[str, Any], None]


class DraftSender:
    """Sends the drafts of one request, but only as many as an eye can follow."""

    def __init__(self, send: Send, *, kind: Kind, encoding: Encoding, token: ProgressToken | None) -> None:
        self._send, self._kind, self._encoding, self._token = send, kind, encoding, token
        self._not_before_s = float("-inf")

    def send(self, draft: Draft, document: Document | Snapshot | None, read: Callable[[], Sequence[HoleDraft]]) -> None:
        """Send what `read` finds in `draft`: holes of `document` as it stands. None: that is gone, nothing is sent."""
        began_s = time.monotonic()
        if document is None or began_s < self._not_before_s:
            return
        if holes := read():
            self._send(METHOD, self._params(draft, document, holes))
        now_s = time.monotonic()
        self._not_before_s = max(began_s + INTERVAL_S, now_s + PAUSE_RATIO * (now_s - began_s))

    def _params(self, draft: Draft, document: Document | Snapshot, holes: Sequence[HoleDraft]) -> dict[str, Any]:
        return {
            "uri": document.uri,
            "version": document.version,
            "kind": self._kind,
            "token": self._token,
            "step": draft.step,
            "maxSteps": draft.max_steps,
            "holes": [_hole(hole, document.lines, self._encoding) for hole in holes],
        }


def _hole(hole: HoleDraft, lines: LineIndex, encoding: Encoding) -> dict[str, Any]:
    places = (lines.position(offset, encoding) for offset in (hole.start, hole.end))
    start, end = ({"line": line, "character": character} for line, character in places)
    return {
        "range": {"start": start, "end": end},
        "text": hole.text,
        "pieces": list(hole.pieces),
        "confidences": [round(confidence, 3) for confidence in hole.confidences],
    }

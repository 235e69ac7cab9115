"""`infill/draft` notifications: the text of each hole during denoising (editors/README.md has the contract)."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

from lsprotocol.types import ProgressToken

from inference.messages import Draft
from lsp_server.documents.document import Document, Snapshot
from lsp_server.documents.positions import Encoding
from lsp_server.fill.drafts import HoleDraft
from lsp_server.lsp.capabilities import lsp_range

METHOD = "infill/draft"
INTERVAL_S = 1 / 30
"""Skip drafts that follow sooner than this: they would be too fast to see."""
PAUSE_RATIO = 4
"""After a draft, pause this many times as long as it took, so that typing does not wait for drafts."""

Kind = Literal["inline", "action"]
Send = Callable[[str, Any], None]


class DraftSender:
    """Sends the drafts of one request, at a visible rate."""

    def __init__(self, send: Send, *, kind: Kind, encoding: Encoding, token: ProgressToken | None) -> None:
        self._send = send
        self._kind = kind
        self._encoding = encoding
        self._token = token
        self._not_before_s = float("-inf")

    def send(self, draft: Draft, document: Document | Snapshot | None, read: Callable[[], Sequence[HoleDraft]]) -> None:
        """Sends the holes that `read` finds in `draft`, for the current `document`; nothing if it was closed (None)."""
        began_s = time.monotonic()
        if document is None or began_s < self._not_before_s:
            return
        if holes := read():
            hole_params = [
                {
                    "range": lsp_range(document.lines, hole.start, hole.end, self._encoding),
                    "text": hole.text,
                    "pieces": list(hole.pieces),
                    "confidences": [round(confidence, 3) for confidence in hole.confidences],
                }
                for hole in holes
            ]
            params = {"uri": document.uri, "version": document.version, "kind": self._kind, "token": self._token}
            self._send(METHOD, {**params, "step": draft.step, "maxSteps": draft.max_steps, "holes": hole_params})
        now_s = time.monotonic()
        self._not_before_s = max(began_s + INTERVAL_S, now_s + PAUSE_RATIO * (now_s - began_s))

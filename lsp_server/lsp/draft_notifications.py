"""What the canvas holds while it is denoised, as `infill/draft` notifications (editors/README.md has the contract).

A draft is fitted like an answer, so that it shows what would be put in. Knows no LSP types and no connection: it is
given the function that sends.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from inference.messages import Draft, HoleKind
from lsp_server import carve
from lsp_server.documents.document import Snapshot
from lsp_server.documents.positions import Encoding, LineIndex
from lsp_server.fill import fitting
from lsp_server.inline.anchor import Anchor
from lsp_server.inline.suggestion import Cursor, Suggestion

METHOD = "infill/draft"
INTERVAL_S = 1 / 30
"""Drafts that come sooner after the one before are left out: no eye follows them."""

PAUSE_SHARE = 4
"""A pause is so many times as long as it took to make what was shown before it."""

Kind = Literal["inline", "action"]
Texts = tuple[str, ...]
Numbers = tuple[float, ...]
Token = int | str | None
Send = Callable[[str, Any], None]


@dataclass(frozen=True)
class HoleDraft:
    """One hole of a draft: `text` for `[start, end)`, the same by token, and a probability (0 to 1) of each."""

    start: int
    end: int
    text: str
    pieces: tuple[str, ...]
    confidences: tuple[float, ...]

    def at(self, text: str, anchor: Anchor, cursor: int) -> "HoleDraft | None":
        """The same once the hole is at `anchor` of `text` and partly typed; None where it does not go on from there."""
        suggestion = Suggestion("", anchor, self.text, carve.Span(self.start, self.end, HoleKind.LINE))
        shown = suggestion.at(text, Cursor(cursor))
        if shown is None:
            return None
        first = shown.start - anchor.start
        kept = list(_within(first, first + len(shown.text), self.pieces, self.confidences))
        pieces, confidences = zip(*kept, strict=True) if kept else ((), ())
        return HoleDraft(shown.start, shown.end, shown.text, pieces, confidences)


def hole_drafts(snapshot: Snapshot, spans: Sequence[carve.Span], draft: Draft) -> list[HoleDraft]:
    """The holes of a draft for which it has something fit to be put in; the others stay as they are."""
    every = zip(spans, draft.pieces, draft.confidences, strict=False)
    return [found for parts in every if (found := _hole_draft(snapshot, *parts)) is not None]


def _hole_draft(snapshot: Snapshot, span: carve.Span, pieces: Texts, confidences: Numbers) -> HoleDraft | None:
    text = fitting.fit(snapshot, span, "".join(pieces)) if pieces else None
    return None if text is None else HoleDraft(span.start, span.end, text, *_by_token(text, pieces, confidences))


def params(
    uri: str, version: int, kind: Kind, token: Token, draft: Draft, found: Sequence[HoleDraft], where: "RangeConverter"
) -> dict[str, Any]:
    """The notification's params. `found` stands in version `version` of the document, which `where` measures."""
    holes = [
        {
            "range": where.range(sketch.start, sketch.end),
            "text": sketch.text,
            "pieces": list(sketch.pieces),
            "confidences": [round(confidence, 3) for confidence in sketch.confidences],
        }
        for sketch in found
    ]
    said = {"uri": uri, "version": version, "kind": kind, "token": token}
    return {**said, "step": draft.step, "maxSteps": draft.max_steps, "holes": holes}


@dataclass(frozen=True)
class RangeConverter:
    """Offsets of one text as the client counts them."""

    lines: LineIndex
    encoding: Encoding

    def range(self, start: int, end: int) -> dict[str, Any]:
        """The raw JSON of a range."""
        places = (self.lines.position(offset, self.encoding) for offset in (start, end))
        first, last = ({"line": line, "character": character} for line, character in places)
        return {"start": first, "end": last}


class Throttle:
    """Lets something through at most once in `INTERVAL_S`, and less often what takes long to make."""

    def __init__(self) -> None:
        self._next = float("-inf")

    def passes(self) -> bool:
        """Whether enough time has gone by since this was last true."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + INTERVAL_S
        return True

    def spent(self, seconds: float) -> None:
        """What was let through took so long to make: a pause follows, so that typing does not wait for drafts."""
        self._next = max(self._next, time.monotonic() + PAUSE_SHARE * seconds)


class DraftSender:
    """Sends the drafts of one fill of `spans`; give it to `WorkerClient.infill` as `on_draft`.

    Nothing is sent once `is_current` is False, that is for a document that has moved on or a request that is over.
    """

    def __init__(
        self,
        send: Send,
        snapshot: Snapshot,
        spans: Sequence[carve.Span],
        *,
        kind: Kind,
        encoding: Encoding,
        token: Token,
        is_current: Callable[[], bool],
    ) -> None:
        self._send, self._snapshot, self._spans, self._is_current = send, snapshot, spans, is_current
        self._kind, self._token, self._ruler = kind, token, RangeConverter(snapshot.lines, encoding)
        self._throttle = Throttle()
        self._known: dict[int, tuple[Texts, Numbers, HoleDraft | None]] = {}
        """What was made of each hole the last time: most holes of a long fill are settled, or have not begun."""

    def __call__(self, draft: Draft) -> None:
        if not self._is_current() or not self._throttle.passes():
            return
        began, snapshot = time.monotonic(), self._snapshot
        every = zip(self._spans, draft.pieces, draft.confidences, strict=False)
        made = [self._made(number, *parts) for number, parts in enumerate(every)]
        if found := [sketch for sketch in made if sketch is not None]:
            self._send(
                METHOD, params(snapshot.uri, snapshot.version, self._kind, self._token, draft, found, self._ruler)
            )
        self._throttle.spent(time.monotonic() - began)

    def _made(self, number: int, span: carve.Span, pieces: Texts, confidences: Numbers) -> HoleDraft | None:
        known = self._known.get(number)
        if known is None or known[:2] != (pieces, confidences):
            known = self._known[number] = (pieces, confidences, _hole_draft(self._snapshot, span, pieces, confidences))
        return known[2]


def _by_token(
    text: str, pieces: Sequence[str], confidences: Sequence[float]
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """`text`, which is fitted, in the pieces that it was made of; as one where it was restyled beyond recognition."""
    if "\r\n" in text:
        pieces = [piece.replace("\r\n", "\n").replace("\n", "\r\n") for piece in pieces]
    first = "".join(pieces).find(text)
    if first < 0:
        return (text,), (sum(confidences) / max(len(confidences), 1),)
    kept = list(_within(first, first + len(text), pieces, confidences))
    return tuple(piece for piece, _ in kept), tuple(confidence for _, confidence in kept)


def _within(first: int, end: int, pieces: Sequence[str], confidences: Sequence[float]) -> Iterator[tuple[str, float]]:
    """The pieces, or parts of pieces, that lie in [first, end) of what they are together."""
    at = 0
    for piece, confidence in zip(pieces, confidences, strict=True):
        part = piece[max(first - at, 0) : max(end - at, 0)]
        if part:
            yield part, confidence
        at += len(piece)

"""From the worker's candidates to answers that can be put in as they are. Knows no LSP types.

A hole for which a candidate has nothing of use keeps the text that stands in it: a marker stays a marker, and what the
user has typed is never taken away.
"""

from collections.abc import Sequence

import msgspec

from inference.messages import Candidate
from lsp_server import carve
from lsp_server.documents.document import Snapshot
from lsp_server.fill import fitting


def standing(snapshot: Snapshot, spans: Sequence[carve.Span]) -> tuple[str, ...]:
    """What stands in the holes now."""
    return tuple(snapshot.text[span.start : span.end] for span in spans)


def fitted(snapshot: Snapshot, spans: Sequence[carve.Span], candidates: Sequence[Candidate]) -> list[Candidate]:
    """The different candidates that change something, fit to be put in, best first.

    Those that leave holes as they are come after those that fill them all, those that break the parse after the others.
    """
    now = standing(snapshot, spans)
    fits: dict[tuple[str, ...], Candidate] = {}
    for candidate in candidates:
        texts = tuple(_fit(snapshot, span, candidate, number, now[number]) for number, span in enumerate(spans))
        if texts != now:
            fits.setdefault(texts, msgspec.structs.replace(candidate, texts=texts))
    ordered = [list(fits.values())[index] for index in fitting.order(snapshot, spans, list(fits))]
    return sorted(ordered, key=lambda candidate: unfilled(candidate.texts, now))


def unfilled(texts: Sequence[str], now: Sequence[str]) -> int:
    """How many holes an answer leaves as they are."""
    return sum(text == before for text, before in zip(texts, now, strict=True))


def _fit(snapshot: Snapshot, span: carve.Span, candidate: Candidate, number: int, now: str) -> str:
    if number in candidate.unfilled:
        return now
    text = fitting.fit(snapshot, span, candidate.texts[number])
    return now if text is None else text

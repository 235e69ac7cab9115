"""From the worker's candidates to answers that can be put in as they are. Knows no LSP types.

A hole for which a candidate has nothing of use keeps its current text: a marker stays a marker, and what the user has
typed is never taken away.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from inference.messages import Candidate
from lsp_server import carve
from lsp_server.documents.document import Snapshot
from lsp_server.fill import fitting


def current_texts(snapshot: Snapshot, spans: Sequence[carve.Span]) -> tuple[str, ...]:
    """The text of each hole now."""
    return tuple(snapshot.text[span.start : span.end] for span in spans)


def fitted(snapshot: Snapshot, spans: Sequence[carve.Span], candidates: Sequence[Candidate]) -> list[Candidate]:
    """The different candidates that change something, ready to be put in, best first.

    Those that leave holes as they are come after those that fill them all, those that break the parse after the others.
    """
    current = current_texts(snapshot, spans)
    fits: dict[tuple[str, ...], Candidate] = {}
    for candidate in candidates:
        texts = tuple(_fit(snapshot, span, candidate, number, current[number]) for number, span in enumerate(spans))
        if texts != current:
            fits.setdefault(texts, replace(candidate, texts=texts))
    ordered = [list(fits.values())[index] for index in fitting.order(snapshot, spans, list(fits))]
    return sorted(ordered, key=lambda candidate: count_unfilled(candidate.texts, current))


def without_new_markers(texts: Sequence[str], current: Sequence[str], marker: str) -> tuple[str, ...]:
    """`texts`, but the current text of a hole where a fill would bring in another `marker`, that is a new hole."""
    pairs = zip(texts, current, strict=True)
    return tuple(old if new.count(marker) > old.count(marker) else new for new, old in pairs)


def count_unfilled(texts: Sequence[str], current: Sequence[str]) -> int:
    """How many holes an answer leaves as they are."""
    return sum(text == before for text, before in zip(texts, current, strict=True))


def _fit(snapshot: Snapshot, span: carve.Span, candidate: Candidate, number: int, current: str) -> str:
    if number in candidate.unfilled:
        return current
    text = fitting.fit(snapshot, span, candidate.texts[number])
    return current if text is None else text

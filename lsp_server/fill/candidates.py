"""Turns the worker's candidates into answers ready to insert. A hole for which one has nothing keeps its text."""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from inference.messages import Candidate
from lsp_server import carve
from lsp_server.documents.document import Snapshot
from lsp_server.fill import fitting

FEW_HOLES = 8
"""Fitting this many takes a few milliseconds at most if nothing is parsed."""


def current_texts(snapshot: Snapshot, spans: Sequence[carve.Span]) -> tuple[str, ...]:
    """The current text of each hole."""
    return tuple(snapshot.text[span.start : span.end] for span in spans)


def fitted(
    snapshot: Snapshot,
    spans: Sequence[carve.Span],
    candidates: Sequence[Candidate],
    patience: fitting.Patience | None = None,
) -> tuple[list[Candidate], Counter[fitting.Drop]]:
    """The distinct candidates that change something, best first, and the drops by reason.

    First those that fill every hole, last those that break the parse. When `patience` runs out, holes keep their text.
    """
    current = current_texts(snapshot, spans)
    patience = patience or fitting.Patience()
    rows, drops = _fit_all(snapshot, spans, candidates, current, patience)
    fits: dict[tuple[str, ...], Candidate] = {}
    for candidate, texts in zip(candidates, rows, strict=True):
        if texts != current:
            fits.setdefault(texts, replace(candidate, texts=texts))
    ordered = [list(fits.values())[index] for index in fitting.order(snapshot, spans, list(fits), patience)]
    return sorted(ordered, key=lambda candidate: count_unfilled(candidate.texts, current)), drops


def without_new_holes(candidates: Sequence[Candidate], current: tuple[str, ...], marker: str) -> Iterator[Candidate]:
    """The candidates that change something. A hole keeps its current text where a fill would add another `marker`."""
    for candidate in candidates:
        pairs = zip(candidate.texts, current, strict=True)
        texts = tuple(old if new.count(marker) > old.count(marker) else new for new, old in pairs)
        if texts != current:
            yield replace(candidate, texts=texts)


def count_unfilled(texts: Sequence[str], current: Sequence[str]) -> int:
    """The number of holes an answer leaves unchanged."""
    return sum(text == before for text, before in zip(texts, current, strict=True))


def _fit_all(
    snapshot: Snapshot,
    spans: Sequence[carve.Span],
    candidates: Sequence[Candidate],
    current: Sequence[str],
    patience: fitting.Patience,
) -> tuple[list[tuple[str, ...]], Counter[fitting.Drop]]:
    """The text of each hole for each candidate, hole by hole, since neighbours share most of the tree."""
    fitter = fitting.Fitter(snapshot, patience)
    texts: list[list[str]] = [[] for _ in candidates]
    for number, span in enumerate(spans):
        is_left = number >= FEW_HOLES and patience.is_over
        for candidate, row in zip(candidates, texts, strict=True):
            text = None if is_left or number in candidate.unfilled else fitter.fit(span, candidate.texts[number])
            row.append(current[number] if text is None else text)
    return [tuple(row) for row in texts], fitter.drops

"""Passes on what the user was shown, accepted and rejected: to the statistics, shadow mode and the partner."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from lsp_server.documents.document import Document
from lsp_server.documents.tracking import TextRange
from lsp_server.inline.computation import AnswerShown
from lsp_server.inline.suggestion import Suggestion
from lsp_server.refine.refining import Refining
from lsp_server.shadow.other_model import AnsweredRequest
from lsp_server.usage.document_usage import Offer, Timing
from lsp_server.usage.events import Trigger
from lsp_server.usage.usage import Usage


class Record:
    """Listens to the services for suggestions. Also passes `answered` what the other model could be asked."""

    def __init__(
        self,
        documents: Mapping[str, Document],
        usage: Usage,
        answered: Callable[[AnsweredRequest], None] | None = None,
        refining: Refining | None = None,
    ) -> None:
        self._documents, self._usage = documents, usage
        self._answered, self._refining = answered, refining

    def shown(self, uri: str, shown: AnswerShown) -> None:
        """A request was answered with suggestions."""
        first, trigger = shown.first, _trigger(invoked=shown.invoked)
        offer = Offer(first.computation, first.hole.kind, trigger, first.confidence, shown.adds)
        timing = Timing(shown.asked_s, shown.first_draft_s, shown.remembered)
        key = self._usage.of(self._documents[uri]).shown(offer, timing)
        if shown.computation is None:
            return
        if self._answered is not None and (answered := _answered(shown, key)):
            self._answered(answered)
        if self._refining is not None and shown.computation.invoked:
            self._refining.shown(uri, first)

    def taken(self, uri: str, suggestion: Suggestion, length: int) -> None:
        """The first `length` characters of a suggestion are now in the text."""
        start, is_whole = suggestion.anchor.start, length == len(suggestion.text)
        self._usage.of(self._documents[uri]).accepted(suggestion.computation, start, length, whole=is_whole)
        if self._refining is not None and is_whole:
            self._refining.taken(uri, start, suggestion.text)

    def rejected(self, uri: str, computation: str) -> None:
        """The user rejected the suggestions of this computation."""
        self._usage.of(self._documents[uri]).rejected(computation)

    def filled(self, answered: AnsweredRequest, timing: Timing, confidence: float, *, is_refined: bool) -> None:
        """The editor gets an edit that fills holes. `is_refined`: the partner wrote it."""
        snapshot, spans, texts = answered.snapshot, answered.spans, answered.texts
        keys = self._usage.of(self._documents[snapshot.uri]).filled(snapshot, spans, texts, timing)
        if self._answered is not None and not is_refined:
            self._answered(replace(answered, suggestions=keys))
        if self._refining is not None:
            self._refining.expect(snapshot, spans, texts, 1.0 if is_refined else confidence)


def _answered(shown: AnswerShown, key: int) -> AnsweredRequest | None:
    """The question for the other model; None if the user has typed on, which it would not know."""
    first, computation = shown.first, shown.computation
    if computation is None or computation.sent_at_s is None or computation.is_amended:
        return None
    if first.computation != computation.id:
        return None
    return AnsweredRequest(
        computation.snapshot,
        [computation.hole],
        [TextRange(computation.anchor.start, computation.anchor.end)],
        [first.text],
        _trigger(invoked=computation.invoked),
        computation.budget,
        computation.marker,
        (time.monotonic() - computation.sent_at_s) * 1000,
        suggestions=[key],
        computation=computation.id,
    )


def _trigger(*, invoked: bool) -> Trigger:
    return "asked" if invoked else "typing"

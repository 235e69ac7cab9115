"""Counts what the user was shown, accepted and rejected."""

import re
from dataclasses import dataclass

from lsp_server.fill.feature import Feature, Shown, Taken
from lsp_server.fill.host import Host
from lsp_server.usage.ledger import Ledger
from lsp_server.usage.records import Key, today

SHOWN = "shown"
WHOLE = "whole"
PART = "part"
REJECTED = "rejected"
COMPUTED = "computed"
MS = "ms"
"""How many answers were computed, and how long the user waited for them, in all."""
_KEPT = 256
"""An answer older than so many others is no longer followed."""
_LANGUAGE = re.compile(r"[A-Za-z0-9+#._-]{1,32}")
"""A valid language id; any other counts as `other`, because a client may send anything."""


@dataclass
class _Answer:
    trigger: str
    outcome: str = ""


class Usage(Feature):
    """Counts each answer once, however often it is shown, by its last outcome."""

    def __init__(self, host: Host, ledger: Ledger) -> None:
        self._host = host
        self._ledger = ledger
        self._answers: dict[str, _Answer] = {}

    def shown(self, uri: str, shown: Shown) -> None:
        if shown.id not in self._answers:
            self._answers[shown.id] = _Answer(shown.trigger)
            self._count(uri, shown.trigger, SHOWN)
            if len(self._answers) > _KEPT:
                del self._answers[next(iter(self._answers))]
        if shown.waited_ms is not None:
            self._count(uri, shown.trigger, COMPUTED)
            self._count(uri, shown.trigger, MS, round(shown.waited_ms))

    def taken(self, uri: str, taken: Taken) -> None:
        self._decide(uri, taken.id, WHOLE if taken.is_whole else PART)

    def rejected(self, uri: str, answer_id: str) -> None:
        self._decide(uri, answer_id, REJECTED)

    def _decide(self, uri: str, answer_id: str, outcome: str) -> None:
        """A part may become the whole; what was accepted is never rejected."""
        answer = self._answers.get(answer_id)
        if answer is None or answer.outcome not in ("", PART) or (answer.outcome and outcome != WHOLE):
            return
        if answer.outcome:
            self._count(uri, answer.trigger, answer.outcome, -1)
        answer.outcome = outcome
        self._count(uri, answer.trigger, outcome)

    def _count(self, uri: str, trigger: str, event: str, by: int = 1) -> None:
        document = self._host.documents.get(uri)
        if document is not None and self._host.settings_of(uri).statistics == "on":
            self._ledger.count(Key(today(), language_of(document.language_id), trigger, event), by)


def language_of(language_id: str) -> str:
    """A language, as it is counted."""
    return language_id if _LANGUAGE.fullmatch(language_id) else "other"

"""The events that the service reports about its suggestions: shown, accepted, rejected. Does not know who listens."""

from dataclasses import dataclass
from typing import Protocol

from lsp_server.inline.computation import Computation
from lsp_server.inline.suggestion import Suggestion


@dataclass(frozen=True)
class AnswerShown:
    """A request was answered with suggestions; accepting `first` adds `adds` characters. Times are monotonic."""

    first: Suggestion
    adds: int
    invoked: bool
    remembered: bool
    asked_s: float
    first_draft_s: float | None = None
    computation: Computation | None = None  # which this answer has completed


class SuggestionListener(Protocol):
    """Receives events about suggestions."""

    def shown(self, uri: str, shown: AnswerShown) -> None:
        """A request was answered."""

    def taken(self, uri: str, suggestion: Suggestion, length: int) -> None:
        """The first `length` characters of a suggestion are now at the start of its anchor."""

    def rejected(self, uri: str, computation: str) -> None:
        """The user rejected the suggestions of this computation."""

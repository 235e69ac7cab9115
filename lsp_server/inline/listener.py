"""What the service tells of its suggestions: shown, taken and rejected. It does not know who listens."""

from dataclasses import dataclass
from typing import Protocol

from lsp_server.inline.computation import Computation
from lsp_server.inline.suggestion import Suggestion


@dataclass(frozen=True)
class Shown:
    """A request was answered with suggestions. Taking the `first` would add `adds` characters.

    `asked_s` and `first_draft_s` say when the request arrived and its first draft was shown, by `time.monotonic`.
    `computation` is the one that has ended with this answer; None where it was known, or others were answered before.
    """

    first: Suggestion
    adds: int
    invoked: bool
    remembered: bool
    asked_s: float
    first_draft_s: float | None = None
    computation: Computation | None = None


class SuggestionListener(Protocol):
    """Hears what becomes of suggestions."""

    def shown(self, uri: str, shown: Shown) -> None:
        """A request was answered."""

    def taken(self, uri: str, suggestion: Suggestion, length: int) -> None:
        """The first `length` characters of a suggestion stand at the start of its anchor."""

    def rejected(self, uri: str, computation: str) -> None:
        """The user wants no suggestion of this computation."""


class Silent:
    """Tells nobody."""

    def shown(self, uri: str, shown: Shown) -> None:
        """Does nothing."""

    def taken(self, uri: str, suggestion: Suggestion, length: int) -> None:
        """Does nothing."""

    def rejected(self, uri: str, computation: str) -> None:
        """Does nothing."""

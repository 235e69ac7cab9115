"""What is told to the writer. Nothing here but `Look` holds text, and of a `Look` only the similarity is written."""

from dataclasses import dataclass
from typing import Literal

Trigger = Literal["typing", "asked", "action"]
"""Whether a suggestion appeared by itself, was asked for at the cursor, or is one hole of a command or code action."""
Outcome = Literal["whole", "part", "rejected"]


@dataclass(frozen=True)
class Shown:
    """A suggestion was shown for the first time, at `at_s` of the wall clock. It adds so many `characters`."""

    key: int
    at_s: float
    language: str
    kind: str
    trigger: Trigger
    confidence: float | None
    characters: int


@dataclass(frozen=True)
class Answered:
    """A request was answered with the suggestion `key`. `remembered`: nothing had to be computed for it.

    Times count from the request's arrival; `first_draft_ms` is None where no draft was shown.
    """

    key: int
    remembered: bool
    first_draft_ms: float | None
    whole_ms: float


@dataclass(frozen=True)
class Decided:
    """What has become of a suggestion, and how many characters of it were taken so far."""

    key: int
    outcome: Outcome
    taken_characters: int


@dataclass(frozen=True)
class Look:
    """What stands now where a text was taken: at a save, or some minutes later."""

    key: int
    when: Literal["save", "later"]
    taken: str
    stands: str


@dataclass(frozen=True)
class Lost:
    """So many events were dropped because the disk was too slow, or could not be written."""

    at_s: float
    events: int


Event = Shown | Answered | Decided | Look | Lost

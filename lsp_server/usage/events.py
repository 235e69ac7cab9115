"""What is told to the writer. Texts are in `Look`, `Pair` and `PairLook` alone.

Of these only lengths and similarities are written.
"""

from dataclasses import dataclass
from typing import Literal

Trigger = Literal["typing", "asked", "action"]
"""Whether a suggestion appeared by itself, was asked for at the cursor, or is one hole of a command or code action."""
NEXT_EDIT = "nextEdit"
"""The kind of what was offered elsewhere than at the cursor, after an edit. It is counted by itself."""
Outcome = Literal["whole", "part", "rejected"]
PairOutcome = Literal["answered", "late", "nothing", "failed", "stopped"]
"""How the other model fared: in the time that the main one had, later, with nothing that fits, not at all; or it was
stopped, or never asked, for the user's sake."""
When = Literal["save", "later"]


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
    when: When
    taken: str
    stands: str


@dataclass(frozen=True)
class PairHole:
    """One hole that both models were asked: what the main one wrote as the suggestion `suggestion`, and the other.

    `other` is None where it wrote nothing of use.
    """

    key: int
    suggestion: int
    kind: str
    main: str
    other: str | None


@dataclass(frozen=True)
class Side:
    """One model's answer, and how long after it was asked; None: not known."""

    model: str
    whole_ms: float | None = None


@dataclass(frozen=True)
class Pair:
    """A request that both models were asked. `document` is a random number for each opening of a document.

    `error` is the code of the failure, or empty.
    """

    key: int
    at_s: float
    document: int
    language: str
    trigger: Trigger
    outcome: PairOutcome
    main: Side
    other: Side
    holes: tuple[PairHole, ...]
    error: str = ""


@dataclass(frozen=True)
class PairLook:
    """What stands now in a hole that both models were asked."""

    hole: PairHole
    when: When
    stands: str


@dataclass(frozen=True)
class Lost:
    """So many events were dropped because the disk was too slow, or could not be written."""

    at_s: float
    events: int


Event = Shown | Answered | Decided | Look | Pair | PairLook | Lost

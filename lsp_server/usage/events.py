"""The events for the writer. Some hold text, of which only lengths and similarities are written."""

from dataclasses import dataclass
from typing import Literal

Trigger = Literal["typing", "asked", "action"]
"""Whether a suggestion appeared by itself, was requested at the cursor, or is one hole of a command or code action."""
NEXT_EDIT = "nextEdit"
"""The kind of an offer made away from the cursor, after an edit. It is counted separately."""
Outcome = Literal["whole", "part", "rejected"]
PairOutcome = Literal["answered", "late", "nothing", "failed", "stopped"]
"""The other model answered in the main one's time, later, with nothing that fits, or not; or was stopped."""
When = Literal["save", "later"]


@dataclass(frozen=True)
class Shown:
    """A suggestion was first shown, at `at_s` of the wall clock. It adds this many `characters`."""

    key: int
    at_s: float
    language: str
    kind: str
    trigger: Trigger
    confidence: float | None
    characters: int


@dataclass(frozen=True)
class Answered:
    """A request was answered with the suggestion `key`, if `remembered` without a computation."""

    key: int
    remembered: bool
    first_draft_ms: float | None
    whole_ms: float


@dataclass(frozen=True)
class Decided:
    """The outcome of a suggestion, and how many characters of it were accepted so far."""

    key: int
    outcome: Outcome
    taken_characters: int


@dataclass(frozen=True)
class Look:
    """The current text in place of an accepted one: at a save, or some minutes later."""

    key: int
    when: When
    taken: str
    stands: str


@dataclass(frozen=True)
class PairHole:
    """One hole that both models filled: the main one by `suggestion`; `other` is None if it wrote nothing usable."""

    key: int
    suggestion: int
    kind: str
    main: str
    other: str | None


@dataclass(frozen=True)
class Side:
    """One model's answer, and its delay after the request; None: not known."""

    model: str
    whole_ms: float | None = None


@dataclass(frozen=True)
class Pair:
    """A request sent to both models. `document` is random at each opening; `error` is a failure's code, or empty."""

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
    """The current text in a hole that both models were asked to fill."""

    hole: PairHole
    when: When
    stands: str


@dataclass(frozen=True)
class Lost:
    """This many events were dropped because the disk was too slow, or not writable."""

    at_s: float
    events: int


Event = Shown | Answered | Decided | Look | Pair | PairLook | Lost

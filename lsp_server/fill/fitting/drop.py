"""Why a fill is not worth showing."""

from collections.abc import Mapping
from enum import StrEnum


class Drop(StrEnum):
    """The reason, worded to follow `what it wrote`."""

    UNREADABLE = "is no valid text"
    UNSEEN = "has invisible characters"
    NOT_AS_BEGUN = "does not begin with the typed text"
    EMPTY = "is empty"
    CLOSES = "only ends what it did not begin"
    REPEATS_BELOW = "repeats the lines below"
    REPEATS_BEHIND = "repeats the text behind the hole"
    REPEATS_ABOVE = "repeats the line above"
    UNCHANGED = "stands there already"


def in_words(drops: Mapping[Drop, int]) -> str:
    """All reasons with their counts, most frequent first."""
    ordered = sorted(drops.items(), key=lambda item: -item[1])
    return ", ".join(f"{reason.value} ({count}\u00d7)" for reason, count in ordered)

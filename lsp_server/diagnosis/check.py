"""One finding of `doctor`."""

from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """The result of a check. Only `fail` keeps infill-ls from working."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Check:
    """The subject of a check, the finding, and the remedy if something is wrong."""

    name: str
    verdict: Grade
    found: str
    advice: str = ""

    @classmethod
    def told(cls, name: str, verdict: Grade, message: str, otherwise: str = "") -> "Check":
        """A check whose `message` has its advice behind a semicolon, or else `otherwise`."""
        found, _, advice = message.partition("; ")
        return cls(name, verdict, found, advice or otherwise)

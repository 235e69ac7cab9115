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

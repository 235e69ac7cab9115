"""One finding of `doctor`."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a check came out. Only `fail` keeps infill-ls from working."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Check:
    """What was looked at, what was found, and what to do about it where that is not fine."""

    name: str
    verdict: Verdict
    found: str
    advice: str = ""

"""Scores offers of next edits against the author's changes; white space does not count."""

import re
from collections import Counter
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from inference.bench.next_edit_cases import EditCase

_TOKEN = re.compile(r"\w+|[^\w\s]")
_LONGEST_GRAM, _BETA = 6, 2.0


@dataclass
class CaseResult:
    """The result of one case: its offers in order, each exact or not, and the final text."""

    case: EditCase
    text: str
    offers: list[bool] = field(default_factory=list)
    first_ms: float | None = None
    """From the edit to the first offer; None if none came."""
    asked_ms: list[float] = field(default_factory=list)

    @property
    def needed(self) -> int:
        """How many places the author changed afterwards."""
        return max(0, len(self.case.changes) - 1)


def is_exact(before: str, after: str, finished: str) -> bool:
    """Whether an offer gives its lines their final text, and undoes nothing else.

    Line breaks may differ: it compares tokens.
    """
    first, end = _changed_lines(before, after)
    lines = after.splitlines(keepends=True)
    start, stop = (len(_TOKEN.findall("".join(lines[:number]))) for number in (first, end))
    tokens, wanted = _TOKEN.findall(after), _TOKEN.findall(finished)
    left = SequenceMatcher(None, tokens, wanted, autojunk=False).get_opcodes()
    touched = (i < stop and j > start if i < j else start < i < stop for tag, i, j, _, _ in left if tag != "equal")
    return not any(touched) and _distance(after, finished) < _distance(before, finished)


def delta_chrf(before: str, after: str, finished: str) -> float:
    """chrF of the changes: the character n-grams added and removed, against those of the author; 0 to 1.

    n runs from 1 to 6 and recall counts twice as much as precision, as in chrF. White space does not count.
    """
    found = [_f_score(*_gram_changes(before, after, finished, n)) for n in range(1, _LONGEST_GRAM + 1)]
    return sum(found) / len(found)


def _changed_lines(before: str, after: str) -> tuple[int, int]:
    """The first line of `after` that is not in `before`, and the line after the last one."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    first = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    backwards = zip(old[first:][::-1], new[first:][::-1], strict=False)
    same = next((n for n, (a, b) in enumerate(backwards) if a != b), min(len(old), len(new)) - first)
    return first, len(new) - same


def _distance(one: str, other: str) -> int:
    """How many tokens of two texts have no partner."""
    a, b = _TOKEN.findall(one), _TOKEN.findall(other)
    same = sum(block.size for block in SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks())
    return len(a) + len(b) - 2 * same


def _grams(text: str, n: int) -> Counter[str]:
    plain = "".join(text.split())
    return Counter(plain[at : at + n] for at in range(len(plain) - n + 1))


def _gram_changes(before: str, after: str, finished: str, n: int) -> tuple[Counter[tuple[str, bool]], ...]:
    start = _grams(before, n)
    found = []
    for text in (after, finished):
        end = _grams(text, n)
        grown, gone = end - start, start - end
        found.append(
            Counter({(gram, True): k for gram, k in grown.items()} | {(gram, False): k for gram, k in gone.items()})
        )
    return tuple(found)


def _f_score(made: Counter[tuple[str, bool]], wanted: Counter[tuple[str, bool]]) -> float:
    common = (made & wanted).total()
    if not common:
        return 0.0
    precision, recall = common / made.total(), common / wanted.total()
    return (1 + _BETA**2) * precision * recall / (_BETA**2 * precision + recall)

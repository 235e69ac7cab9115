"""Reads fixture files: cases with a title, a text, and lines with the expected results.

=== the title, which reads as behaviour
x = fo‸                 the text: ‸ is the cursor, ⟦…⟧ a hole, ⇥ a tab, ␍ a return, ␠ a space at the end
--- line                what the suite's `check` expects, in the suite's own words
"""

from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

_SIGNS = {"⇥": "\t", "␍": "\r", "␠": " "}


@dataclass(frozen=True)
class Case:
    """One case. `text` still has its cursor and hole signs; `expected` maps a sign such as `---` to what follows it."""

    title: str
    text: str
    expected: dict[str, str]


def cases(path: Path, *signs: str) -> list[ParameterSet]:
    """The cases of a file as pytest parameters, named by title. Lines that begin with one of `signs` are not text."""
    parts = path.read_text(encoding="utf-8").split("=== ")[1:]
    return [pytest.param(case, id=case.title) for case in (_case(part, signs) for part in parts)]


def _case(part: str, signs: tuple[str, ...]) -> Case:
    title, *lines = part.rstrip("\n").split("\n")
    text, expected = [], dict[str, list[str]]()
    for line in lines:
        sign = next((sign for sign in signs if line == sign or line.startswith(sign + " ")), None)
        if sign is None:
            text.append(line)
        else:
            expected.setdefault(sign, []).append(line[len(sign) + 1 :])
    return Case(title, shown("\n".join(text)), {sign: shown("\n".join(words)) for sign, words in expected.items()})


def shown(text: str) -> str:
    """`text` with the characters that its signs stand for."""
    for sign, character in _SIGNS.items():
        text = text.replace(sign, character)
    return text


def with_cursor(text: str) -> tuple[str, int]:
    """A text without its cursor sign, and the offset of the cursor."""
    before, _, after = text.partition("‸")
    return before + after, len(before)

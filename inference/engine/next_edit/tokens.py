"""A change as replacements of tokens, and its application elsewhere. Knows no model."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from inference.messages import Hunk

_COMMENT = re.compile(r"(?<![\w:\"'])(?:#|//)\s[^\n]*|(?<=\n)\s*\*\s[^\n]*|^\s*\*\s[^\n]*")
_CALCULATION = re.compile(r"\d\w*|[-+*/%<>]")
_TOKEN = re.compile(r"\w+|[^\w\s]")

Opcode = tuple[str, int, int, int, int]
"""As in difflib: a tag, the range of tokens in the old text, and the range of tokens in the new text."""

Splice = tuple[int, int, str]
"""Replaces the text between two offsets."""


@dataclass(frozen=True)
class Proposal:
    """`text` replaces the whole lines from `line` up to `end`, which are now `now`.

    `likeness` is the similarity to the original change's surroundings, from 0 to 1.
    """

    line: int
    end: int
    now: str
    text: str
    likeness: float


@dataclass(frozen=True)
class Token:
    """A word or one character of punctuation, and its offsets."""

    text: str
    start: int
    end: int

    @property
    def is_word(self) -> bool:
        """Whether it is a name, a number or a keyword."""
        return is_word(self.text)


def tokens(text: str) -> list[Token]:
    """The tokens of a text, without white space."""
    return [Token(match[0], match.start(), match.end()) for match in _TOKEN.finditer(text)]


def lines_of(text: str) -> list[str]:
    """The lines of a text with their ends. Only a line feed ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def code(text: str) -> str:
    """The text without blank lines and what looks like a comment in most languages."""
    return "\n".join(line.rstrip() for line in _COMMENT.sub("", text).split("\n") if line.strip())


def is_calculation(hunk: Hunk) -> bool:
    """Whether a change is only of numbers, operators, or `<` to `<=`."""
    before, after = tokens(hunk.old), tokens(hunk.new)
    changed = [code for code in opcodes(before, after) if code[0] != "equal"]
    for tag, i, j, k, m in changed:
        differing = texts(before[i:j] + after[k:m])
        is_bound = differing == ("=",) and i > 0 and before[i - 1].text in ("<", ">")
        is_operand = tag == "replace" or any(token[0].isdigit() for token in differing)
        if not is_bound and not (is_operand and all(map(_CALCULATION.fullmatch, differing))):
            return False
    return bool(changed)


def texts(found: Iterable[Token]) -> tuple[str, ...]:
    """The tokens alone."""
    return tuple(token.text for token in found)


def is_word(token: str) -> bool:
    """Whether a token is a name, a number or a keyword."""
    return token[0].isalnum() or token[0] == "_"


def opcodes(before: Sequence[Token], after: Sequence[Token]) -> Sequence[Opcode]:
    """How tokens become others."""
    return SequenceMatcher(None, texts(before), texts(after), autojunk=False).get_opcodes()


@dataclass(frozen=True)
class Replacement:
    """Tokens `old` become `new`. `gaps` is the white space before and after `old`, and `with_gaps` its replacement."""

    old: tuple[str, ...]
    new: str
    gaps: tuple[str, str] | None = None
    with_gaps: str = ""

    @classmethod
    def of(cls, old: str, before: Sequence[Token], new: str, after: Sequence[Token], code: Opcode) -> "Replacement":
        """One opcode of two texts."""
        _, i, j, k, m = code
        bare = new[after[k].start : after[m - 1].end] if k < m else ""
        gaps = gap(old, before, i), gap(old, before, j)
        start = after[k - 1].end if k else 0
        end = after[m].start if m < len(after) else len(new)
        return cls(texts(before[i:j]), bare, gaps, new[start:end])

    def at(self, text: str, found: Sequence[Token], number: int) -> Splice:
        """The replacement in another text, at token `number` there, keeping that text's white space."""
        end = number + len(self.old)
        first = found[number - 1].end if number else 0
        last = found[end].start if end < len(found) else len(text)
        if self.gaps == (gap(text, found, number), gap(text, found, end)):
            return first, last, self.with_gaps
        if not self.old:
            return first, first, self.with_gaps[: len(self.with_gaps) - len(self.with_gaps.lstrip())] + self.new
        if not self.new and number:
            return first, found[end - 1].end, ""
        return found[number].start, found[end - 1].end, self.new


def gap(text: str, found: Sequence[Token], number: int) -> str:
    """The white space before token `number`."""
    start = found[number - 1].end if number else 0
    return text[start : found[number].start if number < len(found) else len(text)]


def spliced(text: str, splices: Iterable[Splice]) -> str:
    """The text after all splices that do not overlap a later one."""
    first = len(text) + 1
    for start, end, new in sorted(set(splices), reverse=True):
        if end <= first:
            text, first = text[:start] + new + text[end:], start
    return text


def shifted(text: str, was: str, here: str) -> str:
    """Lines shifted from the indentation of one line to that of another."""
    old, new = _indentation(was), _indentation(here)
    lines = lines_of(text)
    return "".join(new + line[len(old) :] if line.startswith(old) and line.strip() else line for line in lines)


def _indentation(text: str) -> str:
    return text[: len(text) - len(text.lstrip(" \t"))]

"""Proposes changes like one that was made: its replacements in similar lines. Knows no model."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from inference.messages import Hunk
from inference.models.family import common_start

_CONTEXT = 4
"""How many tokens on each side of a replacement to compare."""
_MOST_TOKENS = 300
"""For a change that is carried over as a whole."""
_ALIKE = 0.5
"""The share of tokens that similar lines have in common."""
_REACH_LINES = 300
"""How far from a change to look for similar places: searching takes time, and nobody waits for it."""
_COMMENT = re.compile(r"(?<![\w:\"'])(?:#|//)\s[^\n]*|(?<=\n)\s*\*\s[^\n]*|^\s*\*\s[^\n]*")
_CALCULATION = re.compile(r"\d\w*|[-+*/%<>]")
_TOKEN = re.compile(r"\w+|[^\w\s]")

_Tokens = Sequence[re.Match[str]]
_Opcode = tuple[int, int, int, int]
"""The range of tokens in the old text that differs, and the range of tokens in the new text."""
_Splice = tuple[int, int, str]
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


def proposals(lines: Sequence[str], hunk: Hunk) -> Iterator[Proposal]:
    """Possible changes near a change, like it. None after new lines, or after a change of a comment or of a number."""
    first = max(0, hunk.line - _REACH_LINES)
    near = lines[first : hunk.line + _REACH_LINES]
    moved = Hunk(hunk.line - first, hunk.old, hunk.new)
    if _code(hunk.old) == _code(hunk.new) or _is_calculation(hunk) or not hunk.old.strip():
        return
    for one in _replaced(near, moved):
        if _code(one.text) != _code(one.now):
            yield replace(one, line=one.line + first, end=one.end + first)


def lines_of(text: str) -> list[str]:
    """The lines of a text with their ends. Only a line feed ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _code(text: str) -> str:
    """The text without blank lines and what looks like a comment in most languages."""
    return "\n".join(line.rstrip() for line in _COMMENT.sub("", text).split("\n") if line.strip())


def _is_calculation(hunk: Hunk) -> bool:
    """Whether a change is only of numbers, operators, or `<` to `<=`."""
    before, after = _tokens(hunk.old), _tokens(hunk.new)
    changed = _opcodes(before, after)
    for i, j, k, m in changed:
        differing = _texts([*before[i:j], *after[k:m]])
        is_bound = differing == ("=",) and i > 0 and before[i - 1][0] in ("<", ">")
        is_operand = (i < j and k < m) or any(token[0].isdigit() for token in differing)
        if not is_bound and not (is_operand and all(map(_CALCULATION.fullmatch, differing))):
            return False
    return bool(changed)


def _replaced(lines: Sequence[str], hunk: Hunk) -> Iterator[Proposal]:
    """The replacements of a change in similar lines: of the whole change, of each line of it, and alone."""
    old = lines_of(hunk.old)
    new = lines_of(hunk.new)
    yield from _carried_over(lines, hunk.old, hunk.new)
    if len(old) == len(new) > 1:
        for one, other in zip(old, new, strict=True):
            if one != other and one.strip():
                yield from _carried_over(lines, one, other)
    yield from _repeated(lines, list(_replacements(hunk.old, hunk.new)))


@dataclass(frozen=True)
class _Replacement:
    """Tokens `old`, from token `first` on, become `new`; `left` and `right` are the tokens around them.

    `gaps` is the white space before and after `old`, and `with_gaps` replaces it, too.
    """

    first: int
    old: tuple[str, ...]
    new: str
    left: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    gaps: tuple[str, str] | None = None
    with_gaps: str = ""

    def at(self, text: str, found: _Tokens, number: int) -> _Splice:
        """The replacement in another text, at token `number` there, keeping that text's white space."""
        end = number + len(self.old)
        first = found[number - 1].end() if number else 0
        last = found[end].start() if end < len(found) else len(text)
        if self.gaps == (_gap(text, found, number), _gap(text, found, end)):
            return first, last, self.with_gaps
        if not self.old:
            return first, first, self.with_gaps[: len(self.with_gaps) - len(self.with_gaps.lstrip())] + self.new
        if not self.new and number:
            return first, found[end - 1].end(), ""
        return found[number].start(), found[end - 1].end(), self.new

    def likeness(self, found: _Tokens, at: int) -> float:
        """How similar the surroundings of token `at` are, 0 to 1; 0: it does not apply there."""
        end = at + len(self.old)
        if _texts(found[at:end]) != self.old:
            return 0.0
        left = common_start(self.left[::-1], _texts(found[max(0, at - _CONTEXT) : at])[::-1])
        right = common_start(self.right, _texts(found[end : end + _CONTEXT]))
        if any(_is_word(token) and len(token) > 1 for token in self.old):
            return (1 + left + right) / (1 + 2 * _CONTEXT)
        return (left + right) / (1 + 2 * _CONTEXT) if left and right and left + right > 2 else 0.0


def _replacements(old: str, new: str) -> Iterator[_Replacement]:
    """The differences of two texts, in order."""
    before = _tokens(old)
    after = _tokens(new)
    for i, j, k, m in _opcodes(before, after):
        bare = new[after[k].start() : after[m - 1].end()] if k < m else ""
        start = after[k - 1].end() if k else 0
        end = after[m].start() if m < len(after) else len(new)
        around = _texts(before[max(0, i - _CONTEXT) : i]), _texts(before[j : j + _CONTEXT])
        gaps = _gap(old, before, i), _gap(old, before, j)
        yield _Replacement(i, _texts(before[i:j]), bare, *around, gaps=gaps, with_gaps=new[start:end])


def _repeated(lines: Sequence[str], wanted: Sequence[_Replacement]) -> Iterator[Proposal]:
    """Lines that allow one or several of the replacements."""
    for number, line in enumerate(lines):
        found = _tokens(line)
        splices: list[_Splice] = []
        likeness = 0.0
        for one in wanted:
            for at in range(len(found) - len(one.old) + 1):
                if known := one.likeness(found, at):
                    likeness = max(likeness, known)
                    splices.append(one.at(line, found, at))
        if splices:
            yield Proposal(number, number + 1, line, _spliced(line, splices), likeness)


def _carried_over(lines: Sequence[str], old: str, new: str) -> Iterator[Proposal]:
    """A whole change applied to as many similar lines, with their indentation."""
    old, new = _shifted(old, old, ""), _shifted(new, old, "")
    before = _tokens(old)
    height = old.count("\n")
    wanted = list(_replacements(old, new))
    words = set(filter(_is_word, _texts(before)))
    if not 0 < len(before) <= _MOST_TOKENS or not height:
        return
    matcher = SequenceMatcher(None, (), _texts(before), autojunk=False)
    for number in range(len(lines) - height + 1):
        now = "".join(lines[number : number + height])
        here = _shifted(now, now, "")
        found = _tokens(here)
        matcher.set_seq1(_texts(found))
        are_alike = (ratio() >= _ALIKE for ratio in (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio))
        if words.isdisjoint(_texts(found)) or not all(are_alike):
            continue
        places = {theirs + n: ours + n for ours, theirs, size in matcher.get_matching_blocks() for n in range(size)}
        if splices := _placed(wanted, places, here, found):
            yield Proposal(number, number + height, now, _shifted(_spliced(here, splices), "", now), matcher.ratio())


def _placed(wanted: Sequence[_Replacement], places: Mapping[int, int], text: str, found: _Tokens) -> list[_Splice]:
    """Replacements mapped to these tokens of another text; empty if one has no place."""
    splices = []
    for one in wanted:
        at = places.get(one.first)
        if one.old:
            if at is None or any(places.get(one.first + n) != at + n for n in range(len(one.old))):
                return []
        else:
            left = places.get(one.first - 1)
            if at is None and left is not None:
                at = left + 1
            if at is None or left not in (None, at - 1):
                return []
        splices.append(one.at(text, found, at))
    return splices


def _tokens(text: str) -> _Tokens:
    """Words and single characters of punctuation."""
    return list(_TOKEN.finditer(text))


def _texts(found: Iterable[re.Match[str]]) -> tuple[str, ...]:
    return tuple(token[0] for token in found)


def _is_word(token: str) -> bool:
    """Whether a token is a name, a number or a keyword."""
    return token[0].isalnum() or token[0] == "_"


def _opcodes(before: _Tokens, after: _Tokens) -> list[_Opcode]:
    """Where tokens differ from others."""
    found = SequenceMatcher(None, _texts(before), _texts(after), autojunk=False).get_opcodes()
    return [(i, j, k, m) for tag, i, j, k, m in found if tag != "equal"]


def _gap(text: str, found: _Tokens, number: int) -> str:
    """The white space before token `number`."""
    start = found[number - 1].end() if number else 0
    return text[start : found[number].start() if number < len(found) else len(text)]


def _spliced(text: str, splices: Iterable[_Splice]) -> str:
    """The text after all splices that do not overlap a later one."""
    first = len(text) + 1
    for start, end, new in sorted(set(splices), reverse=True):
        if end <= first:
            text, first = text[:start] + new + text[end:], start
    return text


def _shifted(text: str, was: str, here: str) -> str:
    """Lines shifted from the indentation of one line to that of another."""
    old, new = (line[: len(line) - len(line.lstrip(" \t"))] for line in (was, here))
    lines = lines_of(text)
    return "".join(new + line[len(old) :] if line.startswith(old) and line.strip() else line for line in lines)

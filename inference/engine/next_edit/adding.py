"""Repeats an addition elsewhere: the same lines, a name passed along, an argument of a call."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from inference.engine.next_edit.tokens import Proposal, shifted
from inference.messages import Hunk

_SAME_LINE_LIKENESS = 0.7
_HANDED_ON_LIKENESS = 0.6
_CALL_LIKENESS = 0.5
_NAMED = re.compile(r"(?:^|[(,]|self\.|this\.)\s*(\w+)\s*(?=[:=,)])", re.MULTILINE)
_FUNCTION = re.compile(r"(?:def|function|func|fn)\s+(\w+)\s*\(")
_MOST_ARGUMENTS = 2


def added(lines: Sequence[str], hunk: Hunk) -> Iterator[Proposal]:
    """Possible additions to `lines`, following a change."""
    above = lines[hunk.line - 1] if 0 < hunk.line <= len(lines) else ""
    if hunk.old:
        yield from _arguments(lines, hunk)
    else:
        yield from _same_lines(lines, hunk, above)
    siblings = list(dict.fromkeys(_siblings(hunk, above)))
    for number, line in enumerate(lines):
        for other, name in siblings:
            if _has(line, other) and not _has(line, name):
                yield from _beside(number, line, other, name)


def _same_lines(lines: Sequence[str], hunk: Hunk, above: str) -> Iterator[Proposal]:
    """The same lines after each line like the one before them, and before each like the one after them."""
    behind = hunk.line + hunk.new.count("\n")
    below = lines[behind] if behind < len(lines) else ""
    for number, line in enumerate(lines):
        if line.strip() and line.strip() == above.strip():
            yield Proposal(number, number + 1, line, line + shifted(hunk.new, above, line), _SAME_LINE_LIKENESS)
        if line.strip() and line.strip() == below.strip():
            yield Proposal(number, number + 1, line, shifted(hunk.new, below, line) + line, _SAME_LINE_LIKENESS)


def _siblings(hunk: Hunk, above: str) -> Iterator[tuple[str, str]]:
    """Each added name, after the one it was added to."""
    known = set(re.findall(r"\w+", hunk.old + above))
    for one, other in pairwise(_NAMED.findall(above + hunk.new)):
        if one in known and other not in known:
            yield one, other


def _beside(number: int, line: str, other: str, name: str) -> Iterator[Proposal]:
    """Passes another name along wherever a line passes one: on a line of its own, or as an argument."""
    x = re.escape(other)
    if re.match(rf"\s*(self\.|this\.)?_?{x}(: [^=]+)?\s*=\s*{x}\s*[,;]?$|\s*{x},$", line):
        plain = re.sub(r": [^=]+ =", " =", line)
        yield Proposal(number, number + 1, line, line + plain.replace(other, name), _HANDED_ON_LIKENESS)
    elif match := re.search(rf"[(,]\s*({x}\s*=\s*{x}|{x})(?=\s*[,)])", line):
        text = f"{line[: match.end()]}, {match[1].replace(other, name)}{line[match.end() :]}"
        yield Proposal(number, number + 1, line, text, _HANDED_ON_LIKENESS)


def _arguments(lines: Sequence[str], hunk: Hunk) -> Iterator[Proposal]:
    """A function has new parameters: its calls may pass them."""
    found = _FUNCTION.search(hunk.new)
    if found is None:
        return
    known = set(re.findall(r"\w+", hunk.old))
    names = [name for name in re.findall(r"[(,]\s*(\w+)\s*(?=[:=,)])", hunk.new) if name not in known]
    for number, line in enumerate(lines):
        for match in re.finditer(rf"\b{found[1]}\(([^()\n]*)\)", line):
            for name in names[:_MOST_ARGUMENTS]:
                for inside in _with_argument(match[1].strip(), name):
                    text = line[: match.start(1)] + inside + line[match.end(1) :]
                    yield Proposal(number, number + 1, line, text, _CALL_LIKENESS)


def _with_argument(given: str, name: str) -> tuple[str, ...]:
    if not given:
        return name, f"{name}={name}"
    return f"{given}, {name}", f"{given}, {name}={name}", f"{name}, {given}"


def _has(line: str, word: str) -> bool:
    return re.search(rf"\b{re.escape(word)}\b", line) is not None

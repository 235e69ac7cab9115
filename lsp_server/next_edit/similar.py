"""Proposes the latest changes for lines that look like the changed ones, for a model to judge.

A proposal is a three-way merge by tokens: what a change replaced must be there, and what it kept may differ.
"""

import re
import time
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate

from inference.messages import MAX_PROPOSED_CHARACTERS, Edit, Hunk
from lsp_server.next_edit.edit_history import LINE, WORD_OR_SIGN
from lsp_server.syntax.lines import indentation, is_word

_MOST_HUNKS, _MOST_PLACES, _MOST_TEXTS = 3, 6, 4
"""How many of the latest changes to follow, places to propose (most alike first), and texts for each."""
_MOST_TOKENS = 300
"""In a change, and in the lines compared with it: comparing takes up to the cube of that."""
_MOST_S = 0.5
"""Processor time for all comparisons, the latest change first."""
_ALIKE = 0.5
"""The share of tokens that similar lines have in common."""
_REACH_LINES = 300
"""How far from a change to look: searching takes time, and nobody waits for it."""
_TOKEN = re.compile(rf"{WORD_OR_SIGN.pattern}|\s+")


def proposals(text: str, hunks: Sequence[Hunk]) -> tuple[Edit, ...]:
    """Edits of whole lines that have not changed, by place, most alike first; the score is the likeness, 0 to 1."""
    lines = LINE.findall(text)
    starts = [*accumulate(map(len, lines), initial=0)]
    found = list[Edit]()
    until_s = time.thread_time() + _MOST_S
    for change, line, end in _tries(lines, hunks):
        if merged := change.merged("".join(lines[line:end])):
            found.append(Edit(starts[line], starts[end], *merged))
        if time.thread_time() > until_s:
            break
    places = dict[tuple[int, int], dict[str, Edit]]()
    for edit in sorted(found, key=lambda edit: -edit.score):
        places.setdefault((edit.start, edit.end), {}).setdefault(edit.text, edit)
    return tuple(edit for texts in [*places.values()][:_MOST_PLACES] for edit in [*texts.values()][:_MOST_TEXTS])


class _Change:
    """How whole lines became others, by tokens, without their indentation."""

    def __init__(self, old: str, new: str) -> None:
        self.height = old.count("\n")
        was, now = (_TOKEN.findall(_moved(text, indentation(old, 0), "")) for text in (old, new))
        codes = SequenceMatcher(str.isspace, was, now, autojunk=False).get_opcodes()
        self._replaced = [(i, j, "".join(now[k:m])) for tag, i, j, k, m in codes if tag != "equal"]
        self._words = {token for token in was if is_word(token[0])}
        self._like = SequenceMatcher(str.isspace, (), was, autojunk=False)

    def merged(self, lines: str) -> tuple[str, float] | None:
        """The same change of other lines, and how alike they are; None if they are not, or if it has no place there."""
        indent = indentation(lines, 0)
        here = _TOKEN.findall(_moved(lines, indent, ""))
        if not _is_short(lines) or self._words.isdisjoint(here):
            return None
        like = self._like
        like.set_seq1(here)
        if not all(ratio() >= _ALIKE for ratio in (like.real_quick_ratio, like.quick_ratio, like.ratio)):
            return None
        shifts = {old + n: at - old for at, old, size in like.get_matching_blocks() for n in range(size)}
        parts = list[str]()
        done = 0
        for i, j, new in self._replaced:
            found = {shifts.get(n) for n in range(i, j)} or {shifts[n] for n in (i - 1, i) if n in shifts}
            shift = found.pop() if len(found) == 1 else None
            if shift is None:
                return None
            parts += [*here[done : i + shift], new]
            done = j + shift
        text = _moved("".join([*parts, *here[done:]]), "", indent)
        return None if text == lines or len(text) > MAX_PROPOSED_CHARACTERS else (text, like.ratio())


def _tries(lines: Sequence[str], hunks: Sequence[Hunk]) -> Iterator[tuple[_Change, int, int]]:
    """The latest changes, each with the ranges of lines around it that may be like it."""
    changed = {line for hunk in hunks for line in range(hunk.line, hunk.line + hunk.new.count("\n"))}
    for hunk in reversed(hunks[-_MOST_HUNKS:]):
        for change in _changes(hunk):
            last = min(hunk.line + _REACH_LINES, len(lines) - change.height)
            for line in range(max(0, hunk.line - _REACH_LINES), last + 1):
                if changed.isdisjoint(range(line, line + change.height)):
                    yield change, line, line + change.height


def _changes(hunk: Hunk) -> Iterator[_Change]:
    """The whole change, and each line of it if it has as many lines as before."""
    old = LINE.findall(hunk.old)
    new = LINE.findall(hunk.new)
    apart = zip(old, new, strict=True) if len(old) == len(new) > 1 else ()
    for before, after in ((hunk.old, hunk.new), *apart):
        if before.strip() and before != after and _is_short(before) and _is_short(after):
            yield _Change(before, after)


def _is_short(lines: str) -> bool:
    return len(lines) <= MAX_PROPOSED_CHARACTERS and len(_TOKEN.findall(lines)) <= _MOST_TOKENS


def _moved(lines: str, was: str, indent: str) -> str:
    """Lines with `indent` in place of an indentation."""
    return re.sub(rf"(?m)^{was}(?=[ \t]*\S)", indent, lines)

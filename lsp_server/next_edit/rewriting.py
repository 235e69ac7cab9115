"""From a model's rewrite of some lines to the edits worth offering. Pure: knows no model, editor or clock.

A rewrite is split into its smallest edits, and those that need each other are joined again. An edit is dropped if it
undoes or repeats what the user did, deletes what they just wrote, breaks the syntax, or changes white space alone.
Without any recent edit nothing has stopped fitting, so only what is incomplete gets an offer: text where the cursor is,
or broken syntax.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import groupby

from inference.messages import Edit
from lsp_server.fill.fitting import brings_unseen, errors_of
from lsp_server.next_edit.elsewhere import Situation
from lsp_server.next_edit.recent import LINE, WORD_OR_SIGN, Comparison
from lsp_server.next_edit.renames import NextEdit, errors_after
from lsp_server.syntax.lines import end_of_text_before, is_blank, is_word, line_end, line_start
from lsp_server.syntax.parsing import Source
from lsp_server.syntax.view import View

WHY = "the model expects it after your last edits"
_MOST_EDITS = 40
"""A rewrite with more is another text."""
_ALIKE = 0.5
"""How much two lines must share to be the same line, before and after."""
_NEAR_LINES = 12
"""Edits of one construct are joined up to this distance: nobody wants to see half a file marked."""
_WORD = re.compile(r"\w+")
_STUBS = frozenset({"pass", "todo", "TODO", "FIXME", "unimplemented", "raise", "NotImplementedError"})
"""Words that stand for code to come."""
_ASYNC = frozenset({"async", "await"})
_OPENERS = {"{": "}", "(": ")", "[": "]"}


def offers(situation: Situation, rewrite: Edit) -> list[NextEdit]:
    """The edits worth offering of a rewrite of whole lines, nearest to the cursor first."""
    now: Source = situation.snapshot
    cursor = situation.cursor
    old = now.text[rewrite.start : rewrite.end]
    units = list(_units(old, rewrite.text, rewrite.start))
    if now.tree is None or not units or len(units) > _MOST_EDITS or brings_unseen(rewrite.text, now.text):
        return []
    judge = _Judge(now, situation)
    found = [group for group in _groups(now, old, rewrite.text, units, judge) if judge.is_wanted(group)]
    edits = [_joined(now.text, group) for group in found]
    return sorted(edits, key=lambda edit: max(edit.start - cursor, cursor - edit.end, 0))


_Group = tuple[NextEdit, ...]
"""Some of the smallest edits, which need each other, in order. Most start and end between words."""


def _units(old: str, new: str, offset: int) -> Iterator[NextEdit]:
    """The differences, in order; all together turn `old` into `new`. `offset` is where `old` starts."""
    before, after = LINE.findall(old), LINE.findall(new)
    starts = [offset]
    for line in before:
        starts.append(starts[-1] + len(line))
    for tag, i, j, k, m in SequenceMatcher(_is_no_anchor, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        whole = ("".join(before[i:j]), "".join(after[k:m]))
        for start, one, other in _runs(before[i:j], after[k:m]) if j - i == m - k else [(0, *whole)]:
            yield trimmed(starts[i] + start, one, other)


def _runs(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Where equally many lines differ: each line, or all that follow each other if one of them is quite another."""
    at = 0
    for is_same, found in groupby(zip(before, after, strict=True), key=lambda pair: pair[0] == pair[1]):
        pairs = list(found)
        are_alike = is_same or all(_are_alike(*pair) for pair in pairs)
        for some in [[pair] for pair in pairs] if are_alike else [pairs]:
            old, new = ("".join(lines) for lines in zip(*some, strict=True))
            if not is_same:
                yield at, old, new
            at += len(old)


def _is_no_anchor(line: str) -> bool:
    """Whether a line is so common, such as a closing bracket, that finding it again says little."""
    return not any(map(is_word, line))


def _are_alike(one: str, other: str) -> bool:
    """Whether a line became another, and more than its indentation changed."""
    words = (WORD_OR_SIGN.findall(one), WORD_OR_SIGN.findall(other))
    return words[0] != words[1] and SequenceMatcher(None, *words, autojunk=False).ratio() >= _ALIKE


def trimmed(start: int, old: str, new: str) -> NextEdit:
    """The change without what both texts share at their ends, in whole words."""
    most = min(len(old), len(new))
    first = next((n for n in range(most) if old[n] != new[n]), most)
    while first and is_word(old[first - 1]) and any(map(is_word, (old[first : first + 1], new[first : first + 1]))):
        first -= 1
    last = next((n for n in range(most - first) if old[-1 - n] != new[-1 - n]), most - first)
    ends = (old[first : len(old) - last], new[first : len(new) - last])
    while last and is_word(old[len(old) - last]) and any(end and is_word(end[-1]) for end in ends):
        last -= 1
        ends = (old[first : len(old) - last], new[first : len(new) - last])
    return NextEdit(start + first, start + first + len(ends[0]), ends[1], WHY)


def _groups(now: Source, old: str, new: str, units: Sequence[NextEdit], judge: "_Judge") -> list[_Group]:
    """The units, joined where they need each other: in one construct, by a name, or for the syntax."""
    groups: list[_Group] = [(unit,) for unit in units]
    for at in range(len(units) - 1, 0, -1):
        for before in range(at - 1, -1, -1):
            if _need_each_other(now, old, new, units[before], units[at]):
                groups = _with_joined(groups, units[before], units[at])
    while len(groups) > 1 and (broken := next((group for group in groups if judge.breaks(group)), None)):
        others = [group for group in groups if group is not broken]
        near = min(others, key=lambda group: max(group[0].start - broken[-1].end, broken[0].start - group[-1].end))
        groups = _with_joined(groups, broken[0], near[0])
    return [group for group in groups if not judge.breaks(group)]


def _with_joined(groups: Sequence[_Group], one: NextEdit, other: NextEdit) -> list[_Group]:
    """The groups with one instead of those of two units, and of all between them: an offer is one range."""
    numbers = [n for n, group in enumerate(groups) if one in group or other in group]
    first, last = min(numbers), max(numbers)
    return [*groups[:first], tuple(unit for group in groups[first : last + 1] for unit in group), *groups[last + 1 :]]


def _need_each_other(now: Source, old: str, new: str, one: NextEdit, other: NextEdit) -> bool:
    gone = [now.text[unit.start : unit.end] for unit in (one, other)]
    lines = [set(_lines(text)) for text in (*gone, one.text, other.text)]
    if lines[0] & lines[3] or lines[1] & lines[2]:  # a line moves
        return True
    if now.text.count("\n", one.end, other.start) > _NEAR_LINES:
        return False
    words = [set(_WORD.findall(text)) for text in (*gone, one.text, other.text)]
    comes = (words[2] & words[3]) - set(_WORD.findall(old))
    goes = (words[0] & words[1]) - set(_WORD.findall(new))
    is_same = words[0] == words[1] and words[2] == words[3]  # one name for another, as often as it is used
    if comes or (goes and not is_same):
        return True
    both = words[2] & _ASYNC, words[3] & _ASYNC
    return (all(both) and both[0] != both[1]) or _share_construct(now, one, other)


def _share_construct(now: Source, one: NextEdit, other: NextEdit) -> bool:
    """Whether two edits are in one statement, or in a definition's head and body."""
    view = View.of(now)
    if view is None:
        return False
    start, end = (
        end_of_text_before(now.text, unit.end) if unit.start == unit.end else unit.end for unit in (one, other)
    )
    both = view.node_over(min(one.start, start), end)
    return both is not None and both.parent is not None and both.type not in view.table.blocks


def _joined(text: str, group: _Group) -> NextEdit:
    """A group as one edit."""
    parts, at = "", group[0].start
    for unit in group:
        parts += text[at : unit.start] + unit.text
        at = unit.end
    return NextEdit(group[0].start, at, parts, WHY)


@dataclass(frozen=True)
class _Judge:
    """What the user has, did and does: decides which edits they may want."""

    now: Source
    recent: Situation

    def breaks(self, group: _Group) -> bool:
        """Whether the edits add syntax errors. In a text that has some, another one may be far from its cause."""
        before = self._errors(())
        removed = "".join(self.now.text[unit.start : unit.end] for unit in group)
        added = "".join(u.text for u in group)
        return self._errors(group) > before and (not before or _balance(removed) != _balance(added))

    def is_wanted(self, group: _Group) -> bool:
        """Whether to offer the edits."""
        edit = _joined(self.now.text, group)
        removed = self.now.text[edit.start : edit.end]
        if "".join(removed.split()) == "".join(edit.text.split()) or self._repeats(edit):
            return False
        if self._errors(group) < self._errors(()):
            return True
        if not self.recent.earlier:
            return bool(self.recent.others) or self._completes(edit, removed)
        return not self._undoes(edit) and not self._deletes_new(group)

    def _errors(self, group: _Group) -> int:
        if not group:
            return errors_of(self.now.tree) if self.now.tree else 0
        return errors_after(self.now, group) or 0

    @cached_property
    def _last(self) -> Comparison:
        """The last edit."""
        return Comparison(self.recent.earlier[0], self.now.text)

    def _repeats(self, edit: NextEdit) -> bool:
        """Whether lines are inserted once more beside the same lines."""
        text, added = self.now.text, edit.text.strip()
        if edit.start != edit.end or _is_no_anchor(added):
            return False
        before = text[: edit.start].rstrip()
        after = text[edit.end :].lstrip()
        return "\n" in edit.text and (before.endswith(added) or after.startswith(added))

    def _undoes(self, edit: NextEdit) -> bool:
        """Whether the edit brings back what the user removed: most of its lines, or a name for its replacement."""
        text = self.now.text
        first = line_start(text, edit.start)
        last = line_end(text, edit.end)
        now = set(_lines(text))
        lines = [
            each for each in _lines(text[first : edit.start] + edit.text + text[edit.end : last]) if each not in now
        ]
        for before in (Comparison(earlier, text) for earlier in self.recent.earlier):
            near = (hunk for hunk in before.hunks if _is_near(text, edit, hunk.start, hunk.end))
            gone = {line for hunk in near for line in _lines(before.old_lines(hunk))}
            if lines and 2 * sum(line in gone for line in lines) > len(lines):
                return True
        made = _replaced(Comparison(text, text[: edit.start] + edit.text + text[edit.end :]))
        did = _replaced(self._last)
        return any((new, old) in did and (old, new) not in did for old, new in made)

    def _deletes_new(self, group: _Group) -> bool:
        """Whether more words of the last edit go than come in their place."""
        new = [
            self.now.text[max(hunk.start, unit.start) : min(hunk.end, unit.end)]
            for unit in group
            for hunk in self._last.hunks
            if hunk.start < unit.end and unit.start < hunk.end
        ]
        added = [word for unit in group for word in _WORD.findall(unit.text)]
        lost = [word for part in new for word in _WORD.findall(part) if word not in added]
        removed = {word for unit in group for word in _WORD.findall(self.now.text[unit.start : unit.end])}
        return len([word for word in lost if word not in _STUBS]) > len([word for word in added if word not in removed])

    def _completes(self, edit: NextEdit, removed: str) -> bool:
        """Whether the edit only adds text where the cursor is: to its line, to a blank one, or to an empty block."""
        text, cursor = self.now.text, self.recent.cursor
        first = line_start(text, cursor)
        last = line_end(text, cursor)
        if not edit.text.startswith(removed) or not first - 1 <= edit.start <= last + 1:
            return False
        if is_blank(text[first:last]):
            return True
        before = text[: edit.start].rstrip()
        after = text[edit.end :].lstrip()
        if before and after and _OPENERS.get(before[-1]) == after[0]:
            return True
        is_here = edit.start - 1 <= cursor <= edit.end + 1 or edit.end == last or edit.end == first - 1
        return is_here and "\n" not in edit.text[len(removed) :]


def _is_near(text: str, edit: NextEdit, start: int, end: int) -> bool:
    """Whether [start, end) is in the edit's lines, or not far from them."""
    return text.count("\n", edit.end, start) <= _NEAR_LINES and text.count("\n", end, edit.start) <= _NEAR_LINES


def _balance(text: str) -> list[int]:
    return [text.count(bracket) for bracket in "()[]{}"]


def _lines(text: str) -> list[str]:
    """The lines that say something, without their indentation."""
    return [line.strip() for line in text.splitlines() if not _is_no_anchor(line)]


def _replaced(texts: Comparison) -> set[tuple[str, str]]:
    """The words that were replaced, and by what."""
    found = ((texts.old[hunk.old_start : hunk.old_end], texts.new[hunk.start : hunk.end]) for hunk in texts.hunks)
    return {(old.strip(), new.strip()) for old, new in found if old.strip() and new.strip()}

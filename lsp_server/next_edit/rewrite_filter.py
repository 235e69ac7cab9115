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
from itertools import groupby, pairwise

from inference.messages import Edit
from lsp_server.fill.fitting import brings_unseen, errors_of
from lsp_server.next_edit.cross_file import Situation
from lsp_server.next_edit.edit_history import LINE, WORD_OR_SIGN, Comparison
from lsp_server.next_edit.renames import NextEdit, errors_after, trimmed
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
    units = list(_units(now.text[rewrite.start : rewrite.end], rewrite.text, rewrite.start))
    if now.tree is None or not units or len(units) > _MOST_EDITS or brings_unseen(rewrite.text, now.text):
        return []
    judge = _Judge(situation, rewrite)
    found = filter(judge.is_wanted, _joined_where_needed(judge, units))
    return sorted(found, key=lambda edit: max(edit.start - cursor, cursor - edit.end, 0))


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
            yield trimmed(starts[i] + start, one, other, WHY)


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


def _joined_where_needed(judge: "_Judge", units: Sequence[NextEdit]) -> list[NextEdit]:
    """The units, joined where they need each other, with all between them: an offer is one range."""
    text = judge.now.text
    starts = set(range(len(units)))
    for at, unit in enumerate(units):
        first = next((n for n in range(at) if judge.need_each_other(units[n], unit)), at)
        starts.difference_update(range(first + 1, at + 1))
    edits = [_joined(text, units[first:end]) for first, end in pairwise([*sorted(starts), len(units)])]
    while len(edits) > 1 and (broken := next(filter(judge.breaks, edits), None)):
        at = edits.index(broken)
        gaps = [after.start - before.end for before, after in pairwise(edits)]
        first = min(range(max(at - 1, 0), min(at + 1, len(gaps))), key=lambda n: gaps[n])
        edits[first : first + 2] = [_joined(text, edits[first : first + 2])]
    return [edit for edit in edits if not judge.breaks(edit)]


def _joined(text: str, edits: Sequence[NextEdit]) -> NextEdit:
    """Several edits, in order, as one."""
    parts, at = "", edits[0].start
    for edit in edits:
        parts += text[at : edit.start] + edit.text
        at = edit.end
    return NextEdit(edits[0].start, at, parts, WHY)


@dataclass(frozen=True)
class _Judge:
    """What the user has, did and does, and a model's rewrite of it: decides which edits they may want."""

    recent: Situation
    rewrite: Edit

    @property
    def now(self) -> Source:
        return self.recent.snapshot

    def need_each_other(self, one: NextEdit, other: NextEdit) -> bool:
        """Whether two edits, in order, are good only together: they move a line, share a name or are one construct."""
        text = self.now.text
        gone = [text[edit.start : edit.end] for edit in (one, other)]
        lines = [set(_lines(part)) for part in (*gone, one.text, other.text)]
        if lines[0] & lines[3] or lines[1] & lines[2]:  # a line moves
            return True
        if text.count("\n", one.end, other.start) > _NEAR_LINES:
            return False
        words = [set(_WORD.findall(part)) for part in (*gone, one.text, other.text)]
        comes = (words[2] & words[3]) - set(_WORD.findall(text, self.rewrite.start, self.rewrite.end))
        goes = (words[0] & words[1]) - set(_WORD.findall(self.rewrite.text))
        is_same = words[0] == words[1] and words[2] == words[3]  # one name for another, as often as it is used
        if comes or (goes and not is_same):
            return True
        both = words[2] & _ASYNC, words[3] & _ASYNC
        return (all(both) and both[0] != both[1]) or self._share_construct(one, other)

    def _share_construct(self, one: NextEdit, other: NextEdit) -> bool:
        """Whether two edits are in one statement, or in a definition's head and body."""
        view = View.from_source(self.now)
        if view is None:
            return False
        start, end = (
            end_of_text_before(view.text, edit.end) if edit.start == edit.end else edit.end for edit in (one, other)
        )
        both = view.node_over(min(one.start, start), end)
        return both is not None and both.parent is not None and both.type not in view.table.blocks

    def breaks(self, edit: NextEdit) -> bool:
        """Whether the edit adds syntax errors. In a text that has some, another one may be far from its cause."""
        is_balanced = _balance(self.now.text[edit.start : edit.end]) == _balance(edit.text)
        return self._errors_after(edit) > self._errors and not (self._errors and is_balanced)

    def is_wanted(self, edit: NextEdit) -> bool:
        """Whether to offer the edit."""
        removed = self.now.text[edit.start : edit.end]
        if "".join(removed.split()) == "".join(edit.text.split()) or self._repeats(edit):
            return False
        if self._errors_after(edit) < self._errors:
            return True
        if not self.recent.earlier:
            return bool(self.recent.others) or self._completes(edit, removed)
        return not self._undoes(edit) and not self._deletes_new(edit, removed)

    @cached_property
    def _errors(self) -> int:
        return errors_of(self.now.tree) if self.now.tree else 0

    def _errors_after(self, edit: NextEdit) -> int:
        return errors_after(self.now, [edit]) or 0

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

    def _deletes_new(self, edit: NextEdit, removed: str) -> bool:
        """Whether more words of the last edit go than come in their place."""
        text, added, had = self.now.text, _WORD.findall(edit.text), set(_WORD.findall(removed))
        new = (text[max(hunk.start, edit.start) : min(hunk.end, edit.end)] for hunk in self._last.hunks)
        lost = [word for part in new for word in _WORD.findall(part) if word not in added and word not in _STUBS]
        return len(lost) > len([word for word in added if word not in had])

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

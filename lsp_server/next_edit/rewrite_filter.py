"""Converts a model's rewrite of some lines to the edits worth offering. Pure: knows no model, editor or clock.

Splits a rewrite into its smallest edits, and joins those that need each other. Drops edits that undo or repeat what the
user did, delete what they just wrote, break the syntax, or change only the layout.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import accumulate, groupby, pairwise

from inference.messages import ScoredEdit
from inference.models.edit_prompts import LINE
from lsp_server.next_edit.cross_file import NextEditInput
from lsp_server.next_edit.edits import NextEdit, trimmed_edit
from lsp_server.next_edit.judge import NEAR_LINES, EditValidator, lines_with_words
from lsp_server.next_edit.text_diff import WORD_OR_PUNCTUATION, TextDiff
from lsp_server.syntax.lines import end_of_text_before
from lsp_server.syntax.parsing import Source
from lsp_server.syntax.view import SyntaxView

log = logging.getLogger(__name__)
REASON = "the model expects it after your last edits"
_MAX_MINIMAL_EDITS = 40
"""A rewrite with more edits is not used."""
_MIN_LIKENESS = 0.5
"""The least likeness of two lines that count as versions of the same line."""
_WORD = re.compile(r"\w+")
_STUBS = frozenset({"pass", "todo", "TODO", "FIXME", "unimplemented", "raise", "NotImplementedError"})
"""Words that stand for code to come."""
_ASYNC = frozenset({"async", "await"})


def edits_from_rewrite(edit_input: NextEditInput, rewrite: ScoredEdit) -> list[NextEdit]:
    """Returns the edits worth offering of a rewrite of whole lines, nearest to the cursor first."""
    source: Source = edit_input.snapshot
    cursor = edit_input.cursor
    minimal_edits = list(_minimal_edits(source.text[rewrite.start : rewrite.end], rewrite.text, rewrite.start))
    rewrite_filter = _RewriteFilter(edit_input, rewrite)
    is_readable = source.tree is not None and not rewrite_filter.judge.is_invisible(rewrite.text)
    if not is_readable or not 0 < len(minimal_edits) <= _MAX_MINIMAL_EDITS:
        return []
    edits = filter(rewrite_filter.accepts, _join_dependent_edits(rewrite_filter, minimal_edits))
    return sorted(edits, key=lambda edit: max(edit.start - cursor, cursor - edit.end, 0))


def _minimal_edits(old: str, new: str, offset: int) -> Iterator[NextEdit]:
    """The differences that together turn `old`, which starts at `offset`, into `new`, in order."""
    lines, new_lines = LINE.findall(old), LINE.findall(new)
    starts = [*accumulate(map(len, lines), initial=offset)]
    matcher = SequenceMatcher(lambda line: not lines_with_words(line), lines, new_lines, autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            continue
        whole = ("".join(lines[i:j]), "".join(new_lines[k:m]))
        for start, old_run, new_run in _line_runs(lines[i:j], new_lines[k:m]) if j - i == m - k else [(0, *whole)]:
            yield trimmed_edit(starts[i] + start, old_run, new_run, REASON)


def _line_runs(lines: Sequence[str], new_lines: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """The runs of equally many differing lines: each line by itself, or the whole run if two lines are not alike."""
    offset = 0
    for is_same, group in groupby(zip(lines, new_lines, strict=True), key=lambda pair: pair[0] == pair[1]):
        pairs = list(group)
        are_alike = is_same or all(_are_alike(*pair) for pair in pairs)
        for run in [[pair] for pair in pairs] if are_alike else [pairs]:
            old, new = ("".join(texts) for texts in zip(*run, strict=True))
            if not is_same:
                yield offset, old, new
            offset += len(old)


def _are_alike(line: str, new_line: str) -> bool:
    """Whether a line became another, and more than its indentation changed."""
    tokens, new_tokens = WORD_OR_PUNCTUATION.findall(line), WORD_OR_PUNCTUATION.findall(new_line)
    return tokens != new_tokens and SequenceMatcher(None, tokens, new_tokens, autojunk=False).ratio() >= _MIN_LIKENESS


def _join_dependent_edits(rewrite_filter: "_RewriteFilter", minimal_edits: Sequence[NextEdit]) -> list[NextEdit]:
    """Joins edits that need each other, including all between them, since an offer is one range."""
    text, breaks_syntax = rewrite_filter.source.text, rewrite_filter.judge.breaks_syntax
    starts = set(range(len(minimal_edits)))
    for index, unit in enumerate(minimal_edits):
        first = next((n for n in range(index) if rewrite_filter.need_each_other(minimal_edits[n], unit)), index)
        starts.difference_update(range(first + 1, index + 1))
    edits = [_join(text, minimal_edits[first:end]) for first, end in pairwise([*sorted(starts), len(minimal_edits)])]
    while len(edits) > 1 and (index := next((n for n, edit in enumerate(edits) if breaks_syntax([edit])), -1)) >= 0:
        gaps = [later.start - edit.end for edit, later in pairwise(edits)]
        first = min(range(max(index - 1, 0), min(index + 1, len(gaps))), key=lambda n: gaps[n])
        edits[first : first + 2] = [_join(text, edits[first : first + 2])]
    return [edit for edit in edits if not breaks_syntax([edit])]


def _join(text: str, edits: Sequence[NextEdit]) -> NextEdit:
    parts, end = "", edits[0].start
    for edit in edits:
        parts += text[end : edit.start] + edit.text
        end = edit.end
    return NextEdit(edits[0].start, end, parts, REASON)


@dataclass(frozen=True)
class _RewriteFilter:
    """Filters a model's rewrite, given the document, the recent edits and the cursor."""

    edit_input: NextEditInput
    rewrite: ScoredEdit

    @property
    def source(self) -> Source:
        return self.edit_input.snapshot

    @cached_property
    def judge(self) -> EditValidator:
        return EditValidator(self.source, self.edit_input.old_texts)

    def need_each_other(self, edit: NextEdit, later: NextEdit) -> bool:
        """Whether two edits, in order, are good only together: they move a line, share a name or are one construct."""
        text = self.source.text
        removed, later_removed = (text[unit.start : unit.end] for unit in (edit, later))
        parts = (removed, later_removed, edit.text, later.text)
        lines = [set(lines_with_words(part)) for part in parts]
        if lines[0] & lines[3] or lines[1] & lines[2]:  # a line moves
            return True
        if text.count("\n", edit.end, later.start) > NEAR_LINES:
            return False
        words = [set(_WORD.findall(part)) for part in parts]
        introduced = (words[2] & words[3]) - set(_WORD.findall(text, self.rewrite.start, self.rewrite.end))
        removed_words = (words[0] & words[1]) - set(_WORD.findall(self.rewrite.text))
        is_same = words[0] == words[1] and words[2] == words[3]  # one name for another, as often as it is used
        if introduced or (removed_words and not is_same):
            return True
        keywords, later_keywords = words[2] & _ASYNC, words[3] & _ASYNC
        is_async = bool(keywords and later_keywords) and keywords != later_keywords
        return is_async or self._share_construct(edit, later)

    def _share_construct(self, edit: NextEdit, later: NextEdit) -> bool:
        """Whether two edits are in one statement, or in a definition's head and body."""
        view = SyntaxView.from_source(self.source)
        if view is None:
            return False
        start, end = (
            end_of_text_before(view.text, unit.end) if unit.start == unit.end else unit.end for unit in (edit, later)
        )
        node = view.node_over(min(edit.start, start), end)
        return node is not None and node.parent is not None and node.type not in view.table.blocks

    def accepts(self, edit: NextEdit) -> bool:
        reason = self._drop_reason(edit)
        if reason:
            line = self.source.text.count("\n", 0, edit.start) + 1
            log.debug("an edit of the model in line %d is dropped: it %s", line, reason)
        return not reason

    def _drop_reason(self, edit: NextEdit) -> str:
        """Why the edit is not worth offering; empty if it is."""
        removed = self.source.text[edit.start : edit.end]
        if "".join(removed.split()) == "".join(edit.text.split()):
            return "changes white space alone"
        if self._is_repetition(edit):
            return "repeats the lines beside it"
        errors = self.judge.errors_after([edit])
        if errors is not None and errors < self.judge.num_errors:
            return ""
        if "\n" in removed + edit.text and _WORD.findall(removed) == _WORD.findall(edit.text):
            return "lays out the same words in another way"
        if self.judge.undoes(edit):
            return "undoes the last changes"
        return "deletes what was just written" if self._deletes_new(edit, removed) else ""

    def _is_repetition(self, edit: NextEdit) -> bool:
        """Whether the edit inserts lines that equal the neighbouring lines."""
        text, added = self.source.text, edit.text.strip()
        if edit.start != edit.end or "\n" not in edit.text or not lines_with_words(added):
            return False
        return text[: edit.start].rstrip().endswith(added) or text[edit.end :].lstrip().startswith(added)

    def _deletes_new(self, edit: NextEdit, removed: str) -> bool:
        """Whether the edit removes more words of the user's last edit than it adds."""
        text, added, previous = self.source.text, _WORD.findall(edit.text), set(_WORD.findall(removed))
        hunks = [hunk for old in self.edit_input.old_texts[:1] for hunk in TextDiff(old, text).changed_words]
        new = (text[max(hunk.start, edit.start) : min(hunk.end, edit.end)] for hunk in hunks)
        deleted = [word for part in new for word in _WORD.findall(part) if word not in added and word not in _STUBS]
        return len(deleted) > len([word for word in added if word not in previous])

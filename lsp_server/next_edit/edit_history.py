"""The recent edits of a document, in memory only."""

import re
from collections.abc import Iterator, Sequence

from inference.messages import Hunk
from lsp_server.documents.change import TextChange

MAX_EDITS = 24
MAX_CHARS = 20_000
"""The most removed and added text of an edit; a larger one resets the history."""
_MAX_OLD_TEXTS = 5
"""Limited, because each text is parsed."""


class EditHistory:
    """The recent edits of one document, oldest first."""

    def __init__(self) -> None:
        self._edits: list[TextChange] = []
        self._num_open = 0

    def changed(self, changes: Sequence[TextChange]) -> None:
        """Records a change of the document. Each part of it continues one of the latest edits, or starts a new one."""
        num_closed = len(self._edits) - self._num_open
        for change in changes:
            self._add(change, max(num_closed, 0))
        self._num_open = min(len(changes), len(self._edits))
        while len(self._edits) > MAX_EDITS or sum(len(edit.removed + edit.added) for edit in self._edits) > MAX_CHARS:
            self._edits.pop(0)

    def end_current_edit(self) -> None:
        """Makes the next change start a new edit, wherever it is."""
        self._num_open = 0

    def old_texts(self, text: str) -> Iterator[str]:
        """Yields the texts before the last edit, before the last two, and so on. `text` is the current one."""
        for count, edit in enumerate(reversed(self._edits), 1):
            text = TextChange(edit.start, edit.added, edit.removed).apply_to(text)
            if count < _MAX_OLD_TEXTS or count == len(self._edits):
                yield text

    def _add(self, change: TextChange, num_closed: int) -> None:
        moved = change  # as if made before the later edits
        for index in range(len(self._edits) - 1, num_closed - 1, -1):
            edit = self._edits[index]
            end = edit.start + len(edit.added)
            is_inside = edit.start <= moved.start and moved.end <= end
            if is_inside or (index == len(self._edits) - 1 and moved.start <= end and edit.start <= moved.end):
                self._merge(index, moved)
                return
            if moved.start < end and edit.start < moved.end:  # it covers more than one edit
                break
            if moved.start >= end:
                moved = TextChange(moved.start - edit.shift, moved.removed, moved.added)
        self._edits.append(change)

    def _merge(self, index: int, change: TextChange) -> None:
        """Extends an edit by a change that touches it, and shifts the later edits that come after it in the text."""
        self._edits[index] = merged = _merge_changes(self._edits[index], change)
        offset = change.start
        for later in range(index + 1, len(self._edits)):
            edit = self._edits[later]
            if edit.start > offset:
                self._edits[later] = TextChange(edit.start + change.shift, edit.removed, edit.added)
            else:
                offset += edit.shift
        if merged.removed == merged.added:
            del self._edits[index]


def texts_before(text: str, hunks: Sequence[Hunk], cursor: int) -> list[str]:
    """The texts before the last of the hunks, before the last two, and so on. A hunk is located in `text` by its new
    lines, nearest to the cursor. Leaves out hunks that are not found, of other files, or that only deleted.
    """
    texts = list[str]()
    for hunk in reversed(hunks[-MAX_EDITS:]):
        starts = [match.start() for match in re.finditer(re.escape(hunk.new), text)]
        starts = [start for start in starts if text[start - 1 : start] in ("", "\n")]
        if hunk.new.strip() and starts and not hunk.path:
            start = min(starts, key=lambda start: abs(start - cursor))
            text = text[:start] + hunk.old + text[start + len(hunk.new) :]
            texts.append(text)
    return texts if len(texts) <= _MAX_OLD_TEXTS else [*texts[: _MAX_OLD_TEXTS - 1], texts[-1]]


def _merge_changes(edit: TextChange, change: TextChange) -> TextChange:
    """One change with the effect of both in sequence. They touch."""
    end = edit.start + len(edit.added)
    removed_before = change.removed[: max(edit.start - change.start, 0)]
    removed_after = change.removed[len(change.removed) - max(change.end - end, 0) :]
    added_before = edit.added[: max(change.start - edit.start, 0)]
    added_after = edit.added[len(edit.added) - max(end - change.end, 0) :]
    removed = removed_before + edit.removed + removed_after
    return TextChange(min(edit.start, change.start), removed, added_before + change.added + added_after)

"""Whether the user has just undone something: then nothing is to appear by itself, least of all what was undone."""

from collections import OrderedDict
from collections.abc import Sequence

from lsp_server.documents.change import Change

KEPT = 100
"""So many earlier texts are known again."""


class UndoWatch:
    """Knows earlier texts by their hashes.

    A single character typed or deleted is never taken for an undo: that would be every backspace. Nor is white space,
    which editors add and take away by the line.
    """

    def __init__(self, text: str) -> None:
        self._texts: OrderedDict[int, None] = OrderedDict({hash(text): None})
        self.undone = False

    def changed(self, changes: Sequence[Change], text: str) -> None:
        """`changes` came at once and made `text`."""
        key = hash(text)
        characters = sum(max(len(change.removed.strip()), len(change.added.strip())) for change in changes)
        known = key in self._texts
        self.undone = known and characters > 1
        self._texts[key] = None
        self._texts.move_to_end(key)
        if len(self._texts) > KEPT:
            self._texts.popitem(last=False)

"""The differences between an earlier text and the current one, and what their names mean."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lsp_server.documents.change import minimal_change
from lsp_server.next_edit.names import NameIndex, Occurrence
from lsp_server.next_edit.text_diff import TextDiff
from lsp_server.syntax.parsing import Source, edit_tree, parse


@dataclass(frozen=True)
class NameDiff:
    """An earlier text and the current one: their differences and names."""

    text_diff: TextDiff
    old_names: NameIndex
    new_names: NameIndex

    @classmethod
    def parse(cls, source: Source, names: NameIndex, old_text: str) -> "NameDiff | None":
        """Compares `old_text` with the current source and its names; None if the source has no tree."""
        if source.tree is None:
            return None
        change, tree = minimal_change(source.text, old_text), source.tree.copy()
        edit_tree(tree, source.text, change.start, change.end, change.added)
        old_tree = parse(source.language_id, old_text, tree)
        old = NameIndex.from_source(Source(old_text, source.language_id, old_tree, source.uri))
        return None if old is None else cls(TextDiff(old_text, source.text), old, names)

    def renamed_pairs(self, offsets: Iterable[tuple[int, int]] = ()) -> Iterator[tuple[Occurrence, Occurrence]]:
        """Yields the names that became others of the same role, at changed words and at `offsets` of both texts."""
        for old_offset, offset in (*self.text_diff.substituted_offsets, *offsets):
            old = self.old_names.at_offset(old_offset)
            new = self.new_names.at_offset(offset)
            if old is not None and new is not None and old.role == new.role:
                yield old, new

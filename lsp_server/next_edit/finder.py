"""Finds the next edits that follow from recent changes. Pure: knows no editor, worker or clock."""

from collections.abc import Callable, Iterable
from itertools import chain

from lsp_server.fill.postprocess import count_errors
from lsp_server.next_edit.alike_edits import missing_line_edits, repeated_edits, repeated_insertions
from lsp_server.next_edit.cross_file import ChangedDocument, cross_file_edits
from lsp_server.next_edit.edits import NextEdit, without_overlaps
from lsp_server.next_edit.judge import EditValidator
from lsp_server.next_edit.name_diff import NameDiff
from lsp_server.next_edit.names import NameIndex
from lsp_server.next_edit.renames import complete_renames
from lsp_server.next_edit.signatures import signature_edits
from lsp_server.next_edit.text_diff import TextDiff
from lsp_server.syntax.parsing import Source

_FINDERS = (complete_renames, signature_edits, missing_line_edits, repeated_edits)


def find_next_edits(
    source: Source,
    old_texts: Iterable[str],
    other_documents: Iterable[ChangedDocument] = (),
    stop: Callable[[], bool] = lambda: False,
) -> list[NextEdit]:
    """The edits, in order, that follow from the changes since one of the `old_texts`, newest first. If there are none,
    those that follow from the changes of the first of the `other_documents` that has any.

    No edit breaks the parse or touches another. Empty if the change itself broke the parse, or `stop` returns True.
    """
    names = NameIndex.from_source(source)
    if names is None or source.tree is None:
        return []
    texts = list(old_texts)
    judge = EditValidator(source, texts)
    for text in texts:
        diff = None if stop() else NameDiff.parse(source, names, text)
        if diff is None or judge.num_errors > count_errors(diff.old_names.view.root):
            continue
        edits = without_overlaps(chain.from_iterable(find(diff) for find in _FINDERS if not stop()))
        offers = [] if stop() else judge.edits_to_offer(edits)
        if offers or stop():
            return [] if stop() else offers
    documents = list(other_documents)
    for document in documents:
        offers = [] if stop() else judge.edits_to_offer(without_overlaps(cross_file_edits(source, document, stop)))
        if offers and not stop():
            return offers
    others = (other for other in documents if other.language_id == source.language_id)
    diffs = [TextDiff(old, source.text) for old in texts[-1:]]
    diffs += [TextDiff(old, other.text) for other in others for old in other.old_texts[-1:]]
    return [] if stop() else judge.edits_to_offer(without_overlaps(repeated_insertions(names.view, diffs)))

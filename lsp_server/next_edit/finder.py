"""Finds the next edits that follow from recent changes. Pure: knows no editor, worker or clock."""

from collections.abc import Callable, Iterable
from itertools import chain

from lsp_server.fill.postprocess import count_errors
from lsp_server.next_edit.alike_edits import missing_neighbours, repeated_edits
from lsp_server.next_edit.cross_file import ChangedDocument, cross_file_edits
from lsp_server.next_edit.edits import NextEdit, without_overlaps
from lsp_server.next_edit.judge import EditJudge
from lsp_server.next_edit.names import MAX_OCCURRENCES, NameIndex
from lsp_server.next_edit.renames import complete_half_typed_renames, complete_renames, renamed_words
from lsp_server.next_edit.signatures import signature_edits
from lsp_server.next_edit.source_diff import SourceDiff
from lsp_server.syntax.parsing import Source

_FINDERS = (complete_renames, signature_edits, missing_neighbours, repeated_edits)


def next_edits(
    source: Source,
    old_texts: Iterable[str],
    other_documents: Iterable[ChangedDocument] = (),
    stop: Callable[[], bool] = lambda: False,
) -> list[NextEdit]:
    """The edits that follow from the changes since one of the `old_texts`, newest first, or else from those of the
    first of the `other_documents` after which anything follows; in order.

    No edit breaks the parse or touches another. Empty if the change itself broke the parse, or once `stop` says so.
    """
    names = NameIndex.from_source(source)
    if names is None or source.tree is None:
        return []
    texts = list(old_texts)
    judge = EditJudge(source, texts)
    for text in texts:
        diff = None if stop() else SourceDiff.parse(source, names, text)
        if diff is None or judge.num_errors > count_errors(diff.old_names.view.root):
            continue
        edits_by_rules = chain.from_iterable(find(diff) for find in _FINDERS if not stop())
        edits = without_overlaps(list(complete_half_typed_renames(diff)) or edits_by_rules)
        offers = [] if stop() else judge.edits_to_offer(edits)
        if offers or stop():
            return [] if stop() else offers
    for document in other_documents:
        offers = [] if stop() else judge.edits_to_offer(without_overlaps(cross_file_edits(source, document, stop)))
        if offers and not stop():
            return offers
    return []


class HalfRenameError(Exception):
    """A rename cannot be made everywhere. str() says why."""


def unfinished_renames(source: Source, old: str) -> set[str]:
    """The renames since `old` that are not made everywhere, each as the `why` of its edits. Raises HalfRenameError for
    a name that occurs too often to be followed.
    """
    names = NameIndex.from_source(source)
    diff = None if names is None else SourceDiff.parse(source, names, old)
    if diff is None:
        return set()
    unfinished = {edit.why for edit in complete_renames(diff)}
    words = {word for olds, new in renamed_words(diff) for word in (*olds, new)}
    if frequent := min(words & (diff.new_names.too_frequent | diff.old_names.too_frequent), default=""):
        raise HalfRenameError(f"{frequent} occurs more than {MAX_OCCURRENCES:,} times")
    return unfinished

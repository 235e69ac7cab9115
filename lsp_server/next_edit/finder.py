"""Finds the next edits that follow from recent changes. Pure: knows no editor, worker or clock."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice

from lsp_server.fill.fitting import brings_unseen, errors_of
from lsp_server.next_edit.additions import after_additions
from lsp_server.next_edit.cross_file import ChangedDocument, edits_after
from lsp_server.next_edit.edit_history import Comparison
from lsp_server.next_edit.names import MOST_OCCURRENCES, Names
from lsp_server.next_edit.renames import (
    Compared,
    NextEdit,
    after_halves,
    after_renames,
    errors_after,
    renamed_words,
)
from lsp_server.next_edit.repeats import after_repeats
from lsp_server.next_edit.signatures import after_signatures
from lsp_server.syntax.lines import line_end, line_start
from lsp_server.syntax.parsing import Source

MOST_OFFERS = 200
"""Edits after one change; a user facing more will find another way."""
_MOST_TRIED = 16
"""Edits to try one at a time, each with a parse of the file."""
_FINDERS = (after_renames, after_signatures, after_additions, after_repeats)


def next_edits(
    now: Source,
    earlier: Iterable[str],
    others: Iterable[ChangedDocument] = (),
    stop: Callable[[], bool] = lambda: False,
) -> list[NextEdit]:
    """The edits that follow from the changes since one of the `earlier` texts, newest first, or else from those of the
    first of the `others` after which anything follows; in order.

    No edit breaks the parse or touches another. Empty if the change itself broke the parse, or once `stop` says so.
    """
    names = Names.of(now)
    if names is None or now.tree is None:
        return []
    errors, texts = errors_of(now.tree), list(earlier)
    for text in texts:
        compared = None if stop() else Compared.of(now, names, text)
        if compared is None or errors > errors_of(compared.old.view.root):
            continue
        rest = chain.from_iterable(find(compared) for find in _FINDERS if not stop())
        found = _apart(list(after_halves(compared)) or rest)
        kept = [] if stop() else offerable(now, (edit for edit in found if not _undoes(now.text, edit, texts)))
        if kept or stop():
            return [] if stop() else kept
    for other in others:
        kept = [] if stop() else offerable(now, _apart(edits_after(now, other, stop)))
        if kept and not stop():
            return kept
    return []


class HalfRenameError(Exception):
    """A rename cannot be made everywhere. str() says why."""


def renames_left(now: Source, old: str) -> set[str]:
    """The renames since `old` that are not made everywhere, each as the `why` of its edits. Raises HalfRenameError for
    a name that occurs too often to be followed.
    """
    names = Names.of(now)
    compared = None if names is None else Compared.of(now, names, old)
    if compared is None:
        return set()
    left = {edit.why for edit in after_renames(compared)}
    words = {word for olds, new in renamed_words(compared) for word in (*olds, new)}
    if crowded := min(words & (compared.new.crowded | compared.old.crowded), default=""):
        raise HalfRenameError(f"{crowded} occurs more than {MOST_OCCURRENCES:,} times")
    return left


def _undoes(now: str, edit: NextEdit, texts: Iterable[str]) -> bool:
    """Whether an edit gives its lines a text that they had before."""
    start = line_start(now, edit.start)
    end = line_end(now, edit.end)
    after = now[start : edit.start] + edit.text + now[edit.end : end]
    hunks = ((text, hunk) for text in texts for hunk in Comparison(text, now).hunks if start <= hunk.start <= end)
    return any(text[line_start(text, hunk.old_start) : line_end(text, hunk.old_end)] == after for text, hunk in hunks)


def nearest(edits: Sequence[NextEdit], cursor: int) -> NextEdit | None:
    """The edit to offer first."""
    return min(edits, key=lambda edit: (abs(edit.start - cursor), edit.start), default=None)


def offerable(now: Source, edits: Iterable[NextEdit]) -> list[NextEdit]:
    """The edits that add nothing invisible and keep the parse: tried all together, then a few one by one."""
    seen = [edit for edit in edits if not brings_unseen(edit.text, now.text)]
    if now.tree is None or not seen:
        return seen
    errors, apart = errors_of(now.tree), _apart(seen)
    if len(apart) == len(seen) and _keeps_parse(now, apart, errors):
        return seen
    return [edit for edit in seen[:_MOST_TRIED] if _keeps_parse(now, [edit], errors)]


def _apart(found: Iterable[NextEdit]) -> list[NextEdit]:
    """The edits in order. Of those that touch each other, keeps the widest."""
    kept: list[NextEdit] = []
    for edit in sorted(islice(found, MOST_OFFERS), key=lambda edit: edit.start - edit.end):
        if all(edit.end < other.start or other.end < edit.start for other in kept):
            kept.append(edit)
    return sorted(kept, key=lambda edit: edit.start)


def _keeps_parse(now: Source, edits: Sequence[NextEdit], errors: int) -> bool:
    left = errors_after(now, edits)
    return left is not None and left <= errors

"""Finds what no longer fits after a change in another document, reading both as one text.

Whether a document imports another is told by their paths: opens no file.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from lsp_server.documents.document import Snapshot
from lsp_server.documents.uris import local_path
from lsp_server.fill.fitting import errors_of
from lsp_server.next_edit.names import Names, Role
from lsp_server.next_edit.renames import Compared, NextEdit, after_renames
from lsp_server.next_edit.signatures import after_signatures, changed_functions
from lsp_server.syntax.imports import imports_of
from lsp_server.syntax.languages import table_of
from lsp_server.syntax.lines import line_start
from lsp_server.syntax.parsing import Source

_BETWEEN = "\n\n"
_MOST_CHARACTERS = 300_000


@dataclass(frozen=True)
class ChangedDocument:
    """Another open document, and its texts before its recent edits, newest first.

    `beside`: the texts of the document that is looked at, newest first, if both are cells of one notebook and see each
    other's names. Some of its places may follow the change already.
    """

    uri: str
    language_id: str
    text: str
    earlier: Sequence[str]
    beside: Sequence[str] = ()


@dataclass(frozen=True)
class Situation:
    """A document, its texts before the recent edits, newest first, and the cursor.

    `others` are other documents with recent edits, the last changed first.
    """

    snapshot: Snapshot
    earlier: Sequence[str]
    cursor: int
    others: Sequence[ChangedDocument] = ()


@dataclass(frozen=True)
class _Seen:
    """What a document sees of another: the places of its names, words for the other itself, or the `whole`."""

    places: dict[int, str]
    modules: set[str]
    whole: bool


def edits_after(now: Source, other: ChangedDocument, stop: Callable[[], bool]) -> Iterator[NextEdit]:
    """The edits of `now` that follow from the other document's changes, not tried yet."""
    names = Names.of(now)
    if names is None or len(now.text) + len(other.text) > _MOST_CHARACTERS:
        return
    seen = _seen(names, now, other)
    if seen is None:
        return
    changed = Source.parse(now.language_id, other.text)
    new = Names.of(changed)
    if new is None or errors_of(new.view.root):
        return
    for text in other.earlier:
        compared = None if stop() else Compared.of(changed, new, text)
        for before in other.beside or (None,):
            found = [] if compared is None else list(_after(now.language_id, compared, names, seen, before))
            if found:
                yield from found
                return


def _after(
    language_id: str, alone: Compared, names: Names, seen: _Seen, before: str | None = None
) -> Iterator[NextEdit]:
    """The edits after the changes of the other document, `alone`, in one that was `before`, by default the same."""
    renamed = dict(_renamed(alone))
    plain = {*renamed, *(each.name.text for each in changed_functions(alone) if each.name.role is Role.DEFINITION)}
    if any(_means_something_else(names, word, seen) for word in plain):
        return
    for start, word in seen.places.items():
        if word in renamed:
            yield NextEdit(start, start + len(word), renamed[word], f"rename {word} to {renamed[word]}")
    old, new = alone.texts.old, alone.texts.new
    behind = _BETWEEN + _without_imports(names, plain, seen)
    now = Source.parse(language_id, new + behind)
    both_names = Names.of(now)
    earlier = old + (behind if before is None else _BETWEEN + before)
    both = None if both_names is None else Compared.of(now, both_names, earlier)
    first = len(new) + len(_BETWEEN)
    for edit in () if both is None else chain(after_renames(both), after_signatures(both)):
        if edit.start >= first:
            yield NextEdit(edit.start - first, edit.end - first, edit.text, edit.why)


def _renamed(alone: Compared) -> Iterator[tuple[str, str]]:
    """The names that the file defined at its top, and what they are called now."""
    for old, new in alone.renamed():
        is_gone = not any(name.binder == new.binder for name in alone.new.all(old.text))
        if is_gone and new.role is Role.DEFINITION and new.binder is not None and new.binder.parent is None:
            yield old.text, new.text


def _means_something_else(names: Names, word: str, seen: _Seen) -> bool:
    """Whether a plain name in the document is not what the other document defines."""
    plain = [name for name in names.all(word) if name.role in (Role.USE, Role.DEFINITION)]
    own = [name for name in plain if name.binder is not None and name.start not in seen.places]
    at_top = any(name.binder is not None and name.binder.parent is None for name in own)
    return at_top or bool(plain and word not in seen.places.values() and not seen.whole)


def _without_imports(names: Names, words: set[str], seen: _Seen) -> str:
    """The document's text with blanks for its imports of `words`, and for the module in `module.word`."""
    text = names.view.text
    for start, word in seen.places.items():
        if word in words:
            node = names.view.leaf_at(start)
            statement = next(each for each in names.view.ancestors(node) if each.type in names.rules.paths)
            text = _blanked(text, names.view.start(statement), names.view.end(statement))
    for name in (name for word in words for name in names.all(word)):
        if name.role is Role.FIELD and name.receiver in seen.modules:
            start = name.start - len(name.receiver) - 1
            is_first = not text[line_start(text, start) : start].strip()
            text = _blanked(text, start, name.start, "~" if is_first else " ")  # keeps the indentation
    return text


def _blanked(text: str, start: int, end: int, blank: str = " ") -> str:
    return text[:start] + re.sub(r"[^\n]", blank, text[start:end]) + text[end:]


def _seen(names: Names, now: Source, other: ChangedDocument) -> _Seen | None:
    """What the document sees of the other; None if nothing, as far as their paths tell."""
    if table_of(other.language_id).binding is not names.rules:
        return None
    if other.beside:
        return _Seen({}, set(), whole=True)
    document = local_path(now.uri)
    wanted = local_path(other.uri)
    if document is None or wanted is None:
        return None
    shares = names.rules.shares_folder and document.parent == wanted.parent
    seen = _Seen({}, set(), whole=shares)
    is_imported = False
    for module, nodes, files in imports_of(now.language_id, now.tree, document):
        if str(wanted) not in files:
            continue
        is_imported = True
        listed = [node for node in nodes if node.parent is not None and node.parent.type != "import_clause"]
        seen.places.update((names.view.start(node), names.view.code(node)) for node in listed)
        if not nodes:
            seen.modules.add(module)
    return seen if is_imported or shares else None

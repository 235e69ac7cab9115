"""Finds what no longer fits after a change in another document, reading both as one text. Opens no file."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from lsp_server.documents.document import Snapshot
from lsp_server.documents.uris import local_path
from lsp_server.fill.fitting import errors_of
from lsp_server.next_edit.imports import Import, candidate_paths, imported_names
from lsp_server.next_edit.names import Names, Role
from lsp_server.next_edit.recent import Comparison
from lsp_server.next_edit.renames import Compared, NextEdit, after_renames
from lsp_server.next_edit.signatures import after_signatures, changed_functions
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
    """What a document sees of another: names with their places, words for the other itself, or the `whole`."""

    names: frozenset[str]
    places: tuple[tuple[int, str], ...]
    modules: frozenset[str]
    whole: bool


def edits_after(now: Source, other: ChangedDocument, stop: Callable[[], bool]) -> Iterator[NextEdit]:
    """The edits of `now` that follow from the other document's changes, not tried yet."""
    names = Names.of(now)
    if names is None or len(now.text) + len(other.text) > _MOST_CHARACTERS:
        return
    seen = _seen(names, now, other)
    changed = None if seen is None else Source.parse(now.language_id, other.text)
    if seen is None or changed is None or changed.tree is None or errors_of(changed.tree):
        return
    for text in other.earlier:
        compared = None if stop() else _compared(now.language_id, text, other.text)
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
    for start, word in seen.places:
        if word in renamed:
            yield NextEdit(start, start + len(word), renamed[word], f"rename {word} to {renamed[word]}")
    old, new = alone.texts.old, alone.texts.new
    behind = _BETWEEN + _without_imports(names, plain, seen)
    both = _compared(language_id, old + (behind if before is None else _BETWEEN + before), new + behind)
    first = len(new) + len(_BETWEEN)
    for edit in () if both is None else chain(after_renames(both), after_signatures(both)):
        if edit.start >= first:
            yield NextEdit(edit.start - first, edit.end - first, edit.text, edit.why)


def _compared(language_id: str, old: str, new: str) -> Compared | None:
    before, after = (Names.of(Source.parse(language_id, text)) for text in (old, new))
    return None if before is None or after is None else Compared(Comparison(old, new), before, after)


def _renamed(alone: Compared) -> Iterator[tuple[str, str]]:
    """The names that the file defined at its top, and what they are called now."""
    for old_at, at in alone.texts.renamed:
        old, new = alone.old.at(old_at), alone.new.at(at)
        if old is not None and new is not None and new.binder is not None and old.role == new.role is Role.DEFINITION:
            is_gone = not any(name.binder == new.binder for name in alone.new.all(old.text))
            if new.binder.parent is None and is_gone:
                yield old.text, new.text


def _means_something_else(names: Names, word: str, seen: _Seen) -> bool:
    """Whether a plain name in the document is not what the other document defines."""
    imported = {start for start, _ in seen.places}
    plain = [name for name in names.all(word) if name.role in (Role.USE, Role.DEFINITION)]
    own = [name for name in plain if name.binder is not None and name.start not in imported]
    at_top = any(name.binder is not None and name.binder.parent is None for name in own)
    return at_top or bool(plain and word not in seen.names and not seen.whole)


def _without_imports(names: Names, words: set[str], seen: _Seen) -> str:
    """The document's text with blanks for its imports of `words`, and for the module in `module.word`."""
    text = names.view.text
    for start, word in seen.places:
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
        return _Seen(frozenset(), (), frozenset(), whole=True)
    document = local_path(now.uri)
    wanted = local_path(other.uri)
    if document is None or wanted is None:
        return None
    places = dict[int, str]()
    modules = set[str]()
    is_imported = False
    for module, nodes in imported_names(now.language_id, now.tree):
        listed = [node for node in nodes if node.parent is not None and node.parent.type != "import_clause"]
        one = Import(module, tuple(map(names.view.code, listed)))
        if not _may_be(one, wanted):
            continue
        for paths, meant in candidate_paths(now.language_id, one, document, Path(document.anchor)):
            if wanted not in paths:
                continue
            is_imported = True
            if meant.module == module:
                places |= {names.view.start(node): names.view.code(node) for node in listed}
            modules |= {meant.module} if meant.module != module or not nodes else set()
    shares = names.rules.shares_folder and document.parent == wanted.parent
    if not is_imported and not shares:
        return None
    return _Seen(frozenset(places.values()), tuple(sorted(places.items())), frozenset(modules), shares)


def _may_be(one: Import, wanted: Path) -> bool:
    """Whether an import names a file or its folder, so that its paths are worth a comparison."""
    is_dots = not one.module.strip("./")
    return is_dots or any(
        part in name for name in (one.module, *one.names) for part in (wanted.stem, wanted.parent.name)
    )

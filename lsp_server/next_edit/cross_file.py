"""Finds the edits that follow from a change in another document, by analysing both as one text.

Decides by the paths whether a document imports another, and opens no file.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from inference.messages import Hunk
from lsp_server.documents.document import Snapshot
from lsp_server.documents.uris import local_path
from lsp_server.fill.postprocess import count_errors
from lsp_server.next_edit.edits import NextEdit
from lsp_server.next_edit.name_diff import NameDiff
from lsp_server.next_edit.names import NameIndex, Role
from lsp_server.next_edit.renames import complete_renames
from lsp_server.next_edit.signatures import changed_functions, signature_edits
from lsp_server.syntax.imports import imports_of
from lsp_server.syntax.languages import table_of
from lsp_server.syntax.lines import line_start
from lsp_server.syntax.parsing import Source

_BETWEEN = "\n\n"
_MAX_CHARS = 300_000


@dataclass(frozen=True)
class ChangedDocument:
    """Another open document, and its texts before its recent edits, newest first.

    `cell_texts`: the texts of the document to edit, newest first, if both are cells of one notebook, which see each
    other's names. The user may have made some of the edits already.
    """

    uri: str
    language_id: str
    text: str
    old_texts: Sequence[str]
    cell_texts: Sequence[str] = ()


@dataclass(frozen=True)
class NextEditInput:
    """A document, its texts before the recent edits, newest first, and the cursor.

    `other_documents` have recent edits, too; the last changed comes first. `edit_model_hunks` are the changes that a
    client sent for an edit model, if any.
    """

    snapshot: Snapshot
    old_texts: Sequence[str]
    cursor: int
    other_documents: Sequence[ChangedDocument] = ()
    edit_model_hunks: tuple[Hunk, ...] = ()


@dataclass(frozen=True)
class _Imports:
    """What a document imports of another: names by their offsets, and the words for its module.

    `sees_all`: all names of the other document are visible.
    """

    names: dict[int, str]
    modules: set[str]
    sees_all: bool


def cross_file_edits(source: Source, other: ChangedDocument, stop: Callable[[], bool]) -> Iterator[NextEdit]:
    """Yields the edits of `source` that follow from the other document's changes, before validation."""
    names = NameIndex.from_source(source)
    if names is None or len(source.text) + len(other.text) > _MAX_CHARS:
        return
    imports = _imports_of(names, source, other)
    if imports is None:
        return
    other_source = Source.parse(source.language_id, other.text)
    new = NameIndex.from_source(other_source)
    if new is None or count_errors(new.view.root):
        return
    for text in other.old_texts:
        diff = None if stop() else NameDiff.parse(other_source, new, text)
        for old_cell_text in other.cell_texts or (None,):
            edits = [] if diff is None else list(_joined_edits(source.language_id, diff, names, imports, old_cell_text))
            if edits:
                yield from edits
                return


def _joined_edits(
    language_id: str, other_diff: NameDiff, names: NameIndex, imports: _Imports, old_text: str | None = None
) -> Iterator[NextEdit]:
    """The edits after the changes of the other document, in one whose `old_text` is by default the current one."""
    renamed = dict(_renamed_definitions(other_diff))
    functions = (function.name for function in changed_functions(other_diff))
    plain = {*renamed, *(name.text for name in functions if name.role is Role.DEFINITION)}
    if any(_means_something_else(names, word, imports) for word in plain):
        return
    for start, word in imports.names.items():
        if word in renamed:
            yield NextEdit(start, start + len(word), renamed[word], f"rename {word} to {renamed[word]}")
    text = _without_imports(names, plain, imports)
    offset = len(other_diff.text_diff.new) + len(_BETWEEN)
    joined = Source.parse(language_id, other_diff.text_diff.new + _BETWEEN + text)
    joined_names = NameIndex.from_source(joined)
    old = other_diff.text_diff.old + _BETWEEN + (text if old_text is None else old_text)
    diff = None if joined_names is None else NameDiff.parse(joined, joined_names, old)
    for edit in () if diff is None else chain(complete_renames(diff), signature_edits(diff)):
        if edit.start >= offset:
            yield NextEdit(edit.start - offset, edit.end - offset, edit.text, edit.why)


def _renamed_definitions(diff: NameDiff) -> Iterator[tuple[str, str]]:
    """The names that the file defined at its top, and their new names."""
    for old, new in diff.renamed_pairs():
        is_gone = not any(name.binder == new.binder for name in diff.new_names.occurrences(old.text))
        if is_gone and new.role is Role.DEFINITION and new.binder is not None and new.binder.parent is None:
            yield old.text, new.text


def _means_something_else(names: NameIndex, word: str, imports: _Imports) -> bool:
    """Whether a plain name in the document is not the one that the other document defines."""
    plain = [name for name in names.occurrences(word) if name.role in (Role.USE, Role.DEFINITION)]
    own = [name for name in plain if name.binder is not None and name.start not in imports.names]
    at_top = any(name.binder is not None and name.binder.parent is None for name in own)
    return at_top or bool(plain and word not in imports.names.values() and not imports.sees_all)


def _without_imports(names: NameIndex, words: set[str], imports: _Imports) -> str:
    """The document's text with blanks for its imports of `words`, and for the module in `module.word`."""
    text = names.view.text
    for start, word in imports.names.items():
        if word in words:
            node = names.view.leaf_at(start)
            statement = next(node for node in names.view.ancestors(node) if node.type in names.rules.paths)
            text = _blank_range(text, names.view.start(statement), names.view.end(statement))
    for name in (name for word in words for name in names.occurrences(word)):
        if name.role is Role.FIELD and name.receiver in imports.modules:
            start = name.start - len(name.receiver) - 1
            is_first = not text[line_start(text, start) : start].strip()
            text = _blank_range(text, start, name.start, "~" if is_first else " ")  # keeps the indentation
    return text


def _blank_range(text: str, start: int, end: int, blank: str = " ") -> str:
    return text[:start] + re.sub(r"[^\n]", blank, text[start:end]) + text[end:]


def _imports_of(names: NameIndex, source: Source, other: ChangedDocument) -> _Imports | None:
    """What the document imports of the other, judging by their paths; None if nothing."""
    if table_of(other.language_id).binding is not names.rules:
        return None
    if other.cell_texts:
        return _Imports({}, set(), sees_all=True)
    own_path = local_path(source.uri)
    imported_path = local_path(other.uri)
    if own_path is None or imported_path is None:
        return None
    shares = names.rules.shares_folder and own_path.parent == imported_path.parent
    imports = _Imports({}, set(), sees_all=shares)
    is_imported = False
    for module, nodes, files in imports_of(source.language_id, source.tree, own_path):
        if str(imported_path) not in files:
            continue
        is_imported = True
        imported = [node for node in nodes if node.parent is not None and node.parent.type != "import_clause"]
        imports.names.update((names.view.start(node), names.view.code(node)) for node in imported)
        if not nodes:
            imports.modules.add(module)
    return imports if is_imported or shares else None

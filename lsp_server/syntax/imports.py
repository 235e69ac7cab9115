"""A document's imports, and the files that they may mean. Opens no file."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import dropwhile
from os.path import normpath
from pathlib import Path

from tree_sitter import Node, Query, QueryCursor, Tree

from lsp_server.syntax.languages import ImportRules, grammar_of, table_of

_MAX_DEPTH = 5
"""How deep in the tree to look for imports: in `if TYPE_CHECKING:` and `try:`, but not in every function."""


def imports_of(
    language_id: str, tree: Tree | None, document: Path
) -> Iterator[tuple[str, Sequence[Node], Sequence[str]]]:
    """Each import: a module, the nodes of the names imported from it, and the files that it may be, likeliest first.

    A name that may be a module itself comes as one, too.
    """
    rules = table_of(language_id).imports
    query = _query(language_id)
    if rules is None or query is None or tree is None:
        return
    cursor = QueryCursor(query)
    cursor.set_max_start_depth(_MAX_DEPTH)
    for _, captures in cursor.matches(tree.root_node):
        module = _text_of(captures["module"][0])
        nodes = captures.get("name", ())
        yield module, nodes, _files(rules, module, document)
        separator = "" if module.endswith(rules.separator) else rules.separator
        for name in map(_text_of, nodes if rules.submodules else ()):
            yield name, (), _files(rules, module + separator + name, document)


def _files(rules: ImportRules, module: str, document: Path) -> list[str]:
    """The paths of the files that a document may mean by a module."""
    name = module.lstrip(".") if rules.dots_up else module
    parts = [part.strip() for part in name.split(rules.separator) if part.strip()]
    folders: Sequence[Path] = document.parents[:1]
    if up := len(module) - len(name):
        folders = document.parents[up - 1 : up]
    elif not (rules.dot_relative and parts and parts[0] in (".", "..")):
        parts = [*dropwhile(lambda part: part in rules.roots, parts)]
        folders = [folder / inner for folder in document.parents for inner in rules.folders]
    if not parts:  # the package that the document is in
        return [str(folder / end[1:]) for folder in folders for end in rules.suffixes if end.startswith("/")]
    paths = []
    for target in (normpath(folder.joinpath(*parts)) for folder in folders):
        stem, dot, suffix = target.rpartition(".")
        paths += [target] if dot + suffix in rules.suffixes else []
        if dot + suffix in rules.replaced:
            paths += [stem + end for end in rules.suffixes if end.startswith(".")]
        paths += [target + end for end in rules.suffixes]
    return paths


@cache
def _query(language_id: str) -> Query | None:
    rules = table_of(language_id).imports
    grammar = grammar_of(language_id)
    return Query(grammar, rules.query) if grammar and rules else None


def _text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")

"""A document's imports, and the paths of files that may hold them, likeliest first. Opens no file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from os.path import normpath
from pathlib import Path

from tree_sitter import Node, Query, QueryCursor, Tree

from lsp_server.syntax.languages import ImportRules, grammar_of, table_of

_MAX_DEPTH = 5
"""How deep in the tree to look for imports: in `if TYPE_CHECKING:` and `try:`, but not in every function."""


@dataclass(frozen=True)
class Import:
    """A module name, and the names imported from it, if they are listed."""

    module: str
    names: tuple[str, ...]


def imported_names(language_id: str, tree: Tree | None) -> Iterator[tuple[str, Sequence[Node]]]:
    """Each imported module, and the nodes of the names imported from it. A module may come several times."""
    query = _query(language_id)
    if query is None or tree is None:
        return
    cursor = QueryCursor(query)
    cursor.set_max_start_depth(_MAX_DEPTH)
    for _, captures in cursor.matches(tree.root_node):
        yield text_of(captures["module"][0]), captures.get("name", ())


def text_of(node: Node) -> str:
    """The text of a node."""
    return (node.text or b"").decode("utf-8", "replace")


def candidate_paths(
    language_id: str, wanted: Import, document: Path, root: Path
) -> Iterator[tuple[list[Path], Import]]:
    """For an import of `document`: lists of paths, of which the first that exists counts, and the names."""
    rules = table_of(language_id).imports
    if rules is None:
        return
    bases, parts = _bases_and_parts(rules, wanted.module, document, root)
    if parts:
        yield [path for base in bases for path in _files(rules, Path(normpath(base.joinpath(*parts))))], wanted
    else:  # the package that the document is in
        yield [base / suffix[1:] for base in bases for suffix in rules.suffixes if suffix.startswith("/")], wanted
    for name in wanted.names if rules.submodules else ():
        module = Import(name, ())
        yield [path for base in bases for path in _files(rules, base.joinpath(*parts, name))], module


def _bases_and_parts(rules: ImportRules, module: str, document: Path, root: Path) -> tuple[list[Path], list[str]]:
    """The folders in which to look a module up, and the parts of its name."""
    name = module.lstrip(".") if rules.dots_up else module
    parts = [part.strip() for part in name.split(rules.separator) if part.strip()]
    if up := len(module) - len(name):
        return list(document.parents[up - 1 : up]), parts
    if rules.dot_relative and parts and parts[0] in (".", ".."):
        return [document.parent], parts
    while parts and parts[0] in rules.roots:
        parts = parts[1:]
    folders = [folder for folder in document.parents if folder.is_relative_to(root)]
    return [folder / name for folder in folders for name in rules.folders], parts


def _files(rules: ImportRules, target: Path) -> Iterator[Path]:
    if target.suffix in rules.suffixes:
        yield target
    if target.suffix in rules.replaced:
        yield from (target.with_suffix(suffix) for suffix in rules.suffixes if suffix.startswith("."))
    yield from (target.parent / f"{target.name}{suffix}" for suffix in rules.suffixes if target.name)


@cache
def _query(language_id: str) -> Query | None:
    rules = table_of(language_id).imports
    grammar = grammar_of(language_id)
    return Query(grammar, rules.query) if grammar and rules else None

"""What a document imports, and in which files that may be. A language is one table here, not code.

The queries find a `@module` and, where they are listed, the imported `@name`s, near the top of the tree. Looks at no
file: what it gives are paths to try, the likeliest first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from os.path import normpath
from pathlib import Path

from tree_sitter import Query, QueryCursor, Tree

from lsp_server.syntax.languages import grammar_of

MAX_IMPORTS = 40
_DEPTH = 5
"""How deep imports are looked for: under `if TYPE_CHECKING:` and in `try:`, but not in every function."""


@dataclass(frozen=True)
class ImportTable:
    """How a language names files.

    A module's name is parts between `separator`s. With `dots_up` each dot before it is a folder up, as in Python; with
    `dot_relative` a name that begins with `./` or `../` is looked for beside the document alone. Any other is tried
    below each of `folders` of each folder above the document. First parts in `roots` stand for one of those. With
    `submodules` a name that is imported from a module may be a module itself. A name's ending in `replaced` may stand
    for another of `suffixes`.
    """

    ids: tuple[str, ...]
    query: str
    suffixes: tuple[str, ...]
    separator: str = "/"
    dots_up: bool = False
    dot_relative: bool = False
    submodules: bool = False
    roots: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    folders: tuple[str, ...] = ("", "src")


@dataclass(frozen=True)
class Import:
    """A module as it is named, and the names that are taken from it, if they are listed."""

    module: str
    names: tuple[str, ...]


_SCRIPT = """
(import_statement source: (string (string_fragment) @module))
(import_statement (import_clause (named_imports (import_specifier name: (identifier) @name)))
  source: (string (string_fragment) @module))
(import_statement (import_clause (identifier) @name) source: (string (string_fragment) @module))
(export_statement source: (string (string_fragment) @module))
(export_statement (export_clause (export_specifier name: (identifier) @name))
  source: (string (string_fragment) @module))
(variable_declarator value: (call_expression function: (identifier) @_function
  arguments: (arguments . (string (string_fragment) @module) .)) (#eq? @_function "require"))
"""

TABLES = (
    ImportTable(
        ids=("python",),
        query="""
(import_statement name: (dotted_name) @module)
(import_statement name: (aliased_import name: (dotted_name) @module))
(import_from_statement module_name: (_) @module)
(import_from_statement module_name: (_) @module name: (dotted_name) @name)
(import_from_statement module_name: (_) @module name: (aliased_import name: (dotted_name) @name))
""",
        suffixes=(".py", "/__init__.py", ".pyi"),
        separator=".",
        dots_up=True,
        submodules=True,
    ),
    ImportTable(
        ids=("javascript", "javascriptreact", "jsx", "typescript", "typescriptreact", "tsx"),
        query=_SCRIPT,
        suffixes=(
            *(".ts", ".tsx", ".js", ".jsx", ".mts", ".mjs", ".cjs", ".d.ts", ""),
            *("/index.ts", "/index.tsx", "/index.js", "/src/index.ts", "/src/index.js"),
        ),
        dot_relative=True,
        roots=("@", "~"),
        replaced=(".js", ".jsx", ".mjs", ".cjs"),
        folders=("", "src", "node_modules", "packages"),
    ),
    ImportTable(
        ids=("c", "cpp"),
        query="(preproc_include path: (string_literal (string_content) @module))",
        suffixes=("",),
        folders=("", "include", "src"),
    ),
    ImportTable(
        ids=("rust",),
        query="""
(mod_item name: (identifier) @module !body)
(use_declaration argument: (scoped_identifier path: (_) @module name: (identifier) @name))
(use_declaration argument: (scoped_use_list path: (_) @module list: (use_list (identifier) @name)))
""",
        suffixes=(".rs", "/mod.rs"),
        separator="::",
        submodules=True,
        roots=("crate", "self", "super"),
    ),
    ImportTable(
        ids=("java",),
        query="(import_declaration (scoped_identifier) @module)",
        suffixes=(".java",),
        separator=".",
        folders=("", "src", "src/main/java", "src/test/java"),
    ),
    ImportTable(
        ids=("ruby",),
        query="""
(call method: (identifier) @_method arguments: (argument_list (string (string_content) @module))
  (#any-of? @_method "require_relative" "require"))
""",
        suffixes=(".rb",),
        dot_relative=True,
        folders=("", "lib"),
    ),
    ImportTable(
        ids=("lua",),
        query="""
(function_call name: (identifier) @_function arguments: (arguments (string (string_content) @module))
  (#eq? @_function "require"))
""",
        suffixes=(".lua", "/init.lua"),
        separator=".",
        folders=("", "lua", "src"),
    ),
)
_BY_ID = {name: table for table in TABLES for name in table.ids}


def may_be_module(language_id: str) -> bool:
    """Whether a name that a module does not define may be a module of its own, and is then looked for there."""
    return language_id in _BY_ID and _BY_ID[language_id].submodules


def imports(language_id: str, tree: Tree | None) -> list[Import]:
    """What a document imports, in order, each module once."""
    query = _query(language_id)
    if query is None or tree is None:
        return []
    cursor = QueryCursor(query)
    cursor.set_max_start_depth(_DEPTH)
    found: dict[str, list[str]] = {}
    for _, captures in cursor.matches(tree.root_node):
        module = (captures["module"][0].text or b"").decode("utf-8", "replace")
        names = found.setdefault(module, [])
        names += [(node.text or b"").decode("utf-8", "replace") for node in captures.get("name", ())]
    return [Import(module, tuple(dict.fromkeys(names))) for module, names in list(found.items())[:MAX_IMPORTS]]


def places_of(language_id: str, wanted: Import, document: Path, root: Path) -> Iterator[tuple[list[Path], Import]]:
    """For an import of `document`, lists of paths of which the first that is there is meant, and what is wanted of it.

    `root` is the folder above which nothing is looked for by name; a relative path may still lead out of it.
    """
    table = _BY_ID[language_id]
    bases, parts = _from(table, wanted.module, document, root)
    if parts:
        yield [path for base in bases for path in _files(table, Path(normpath(base.joinpath(*parts))))], wanted
    else:  # the package that the document is in
        yield [base / suffix[1:] for base in bases for suffix in table.suffixes if suffix.startswith("/")], wanted
    for name in wanted.names if table.submodules else ():
        module = Import(name, ())
        yield [path for base in bases for path in _files(table, base.joinpath(*parts, name))], module


def _from(table: ImportTable, module: str, document: Path, root: Path) -> tuple[list[Path], list[str]]:
    """The folders that a module's name may be seen from, and its parts."""
    name = module.lstrip(".") if table.dots_up else module
    parts = [part.strip() for part in name.split(table.separator) if part.strip()]
    if up := len(module) - len(name):
        return list(document.parents[up - 1 : up]), parts
    if table.dot_relative and parts and parts[0] in (".", ".."):
        return [document.parent], parts
    while parts and parts[0] in table.roots:
        parts = parts[1:]
    return _above(table, document, root), parts


def _above(table: ImportTable, document: Path, root: Path) -> list[Path]:
    folders = [folder for folder in document.parents if folder.is_relative_to(root)]
    return [folder / name for folder in folders for name in table.folders]


def _files(table: ImportTable, target: Path) -> Iterator[Path]:
    if target.suffix in table.suffixes:
        yield target
    if target.suffix in table.replaced:
        yield from (target.with_suffix(suffix) for suffix in table.suffixes if suffix.startswith("."))
    yield from (target.parent / f"{target.name}{suffix}" for suffix in table.suffixes if target.name)


@cache
def _query(language_id: str) -> Query | None:
    language = grammar_of(language_id)
    return Query(language, _BY_ID[language_id].query) if language and language_id in _BY_ID else None

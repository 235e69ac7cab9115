"""One table for each language: the only place where the server knows a language by name."""

from functools import cache
from importlib import import_module
from pathlib import PurePath

from tree_sitter import Language

from lsp_server.syntax.languages import c, csharp, formats, go, java, javascript, php, python, rust, scripts
from lsp_server.syntax.table import CLOSERS, ImportRules, LanguageTable

__all__ = ["CLOSERS", "PLAIN", "TABLES", "ImportRules", "LanguageTable", "grammar_of", "language_of", "table_of"]

PLAIN = LanguageTable(ids=())
"""For every language without a table: carving goes by indentation."""

TABLES = (
    python.PYTHON,
    *(javascript.JAVASCRIPT, javascript.TYPESCRIPT, javascript.TSX),
    *(rust.RUST, go.GO, c.C, c.CPP, java.JAVA, csharp.CSHARP),
    *(php.PHP, scripts.RUBY, scripts.LUA, scripts.BASH),
    *(formats.JSON, formats.YAML, formats.TOML, formats.HTML, formats.CSS, formats.MARKDOWN),
)
_BY_ID = {name: table for table in TABLES for name in table.ids}
_BY_EXTENSION = {extension: table.ids[0] for table in TABLES for extension in table.extensions}
_BY_NAME = {name: table.ids[0] for table in TABLES for name in table.names}


def table_of(language_id: str) -> LanguageTable:
    """The table for a language id as editors send it; `PLAIN` for an unknown one."""
    return _BY_ID.get(language_id, PLAIN)


def language_of(path: str) -> str:
    """The language id of a file, by its name alone; empty for an unknown one."""
    name = PurePath(path)
    return _BY_EXTENSION.get(name.suffix.lower()) or _BY_NAME.get(name.name, "")


def grammar_of(language_id: str) -> Language | None:
    """The tree-sitter grammar of a language, loaded when first used; None where none is known or installed."""
    return load_grammar(table_of(language_id).grammar)


@cache
def load_grammar(grammar: str) -> Language | None:
    """The grammar that `module:function` returns, loaded once for all ids of its language; None where there is none."""
    module, _, function = grammar.partition(":")
    if not module:
        return None
    try:
        return Language(getattr(import_module(module), function)())
    except (ImportError, AttributeError, ValueError):  # not installed, or of an unsuitable release
        return None

"""One table for each language: the only place where carving knows a language by name.

The algorithms read nothing else. To add a language, add a table and its fixture file. A grammar is loaded at the first
use of its language.
"""

from functools import cache
from importlib import import_module
from pathlib import PurePath

from tree_sitter import Language

from lsp_server.syntax.languages import c, csharp, data, go, java, javascript, markup, php, python, rust, scripts
from lsp_server.syntax.languages.table import CLOSERS, LanguageTable

__all__ = ["CLOSERS", "PLAIN", "TABLES", "LanguageTable", "grammar_of", "language_of", "table_of"]

PLAIN = LanguageTable(ids=())
"""For every language without a table of its own: carving goes by indentation."""

TABLES = (
    python.PYTHON,
    *(javascript.JAVASCRIPT, javascript.TYPESCRIPT, javascript.TSX),
    *(rust.RUST, go.GO, c.C, c.CPP, java.JAVA, csharp.CSHARP),
    *(php.PHP, scripts.RUBY, scripts.LUA, scripts.BASH),
    *(data.JSON, data.YAML, data.TOML, markup.HTML, markup.CSS, markup.MARKDOWN),
)
_BY_ID = {name: table for table in TABLES for name in table.ids}
_BY_EXTENSION = {extension: table.ids[0] for table in TABLES for extension in table.extensions}
_BY_NAME = {name: table.ids[0] for table in TABLES for name in table.names}


def table_of(language_id: str) -> LanguageTable:
    """The table of a language id as editors send it; `PLAIN` for one that is not known."""
    return _BY_ID.get(language_id, PLAIN)


def language_of(path: str) -> str:
    """The language id of a file by its name; empty for one that is not known. Does not look at the file."""
    name = PurePath(path)
    return _BY_EXTENSION.get(name.suffix.lower()) or _BY_NAME.get(name.name, "")


@cache
def grammar_of(language_id: str) -> Language | None:
    """The tree-sitter grammar of a language, loaded at its first use; None where none is known or installed."""
    return load(table_of(language_id).grammar)


@cache
def load(grammar: str) -> Language | None:
    """A grammar's `module:function`; a language of several ids loads it once."""
    module, _, function = grammar.partition(":")
    if not module:
        return None
    try:
        return Language(getattr(import_module(module), function)())
    except (ImportError, AttributeError, ValueError):  # none, or one of another release: the indentation decides
        return None

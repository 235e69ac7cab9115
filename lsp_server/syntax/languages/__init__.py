"""One table for each language, a TOML file in this folder: the only place where the server knows a language by name.

The keys are the fields of `LanguageTable`, `BindingRules` ([binding]) and `ImportRules` ([imports]). A set is a text of
words. A file that `extends` another one has its keys, too, but for the language's names.
"""

import re
import tomllib
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any, TypeVar, get_type_hints

from tree_sitter import Language

from inference.ending import CLOSERS
from lsp_server.syntax.language_table import (
    NOT_FOR_OTHERS,
    TODO,
    UNWRITTEN,
    BindingRules,
    ImportRules,
    LanguageTable,
)

__all__ = [
    "CLOSERS",
    "PLAIN_TEXT",
    "TABLES",
    "ImportRules",
    "LanguageTable",
    "grammar_of",
    "has_language_hint",
    "language_id_of_path",
    "name_comment",
    "resolve_language_id",
    "table_of",
]

PLAIN_TEXT = LanguageTable(ids=())
"""For every language without a table: carving goes by indentation."""

_Table = TypeVar("_Table", LanguageTable, BindingRules, ImportRules)
_NAMES = ("ids", "aliases", "extensions", "names")
_REGEXES = {"{TODO}": TODO, "{UNWRITTEN}": UNWRITTEN, "{NOT_FOR_OTHERS}": NOT_FOR_OTHERS}
"""Placeholders in the tables for long parts of regexes."""


@cache
def _keys(name: str) -> dict[str, Any]:
    """The keys of a file, with those of the one that it extends."""
    keys = tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text("utf-8"))
    if extended := keys.pop("extends", None):
        keys = {key: value for key, value in _keys(extended).items() if key not in _NAMES} | keys
    return keys


def _table(kind: type[_Table], keys: dict[str, Any]) -> _Table:
    """Raises TypeError for a key that is no field."""
    hints = get_type_hints(kind)
    return kind(**{key: _value(value, hints.get(key)) for key, value in keys.items()})


def _value(value: Any, hint: Any) -> Any:
    if isinstance(value, dict):
        return _table(BindingRules, value) if hint == BindingRules | None else _table(ImportRules, value)
    if isinstance(value, list):
        return tuple(_value(part, None) for part in value)
    if isinstance(value, str):
        for name, regex in _REGEXES.items():
            value = value.replace(name, regex)
    return frozenset(value.split()) if hint == frozenset[str] else value


_FILES = sorted(path.stem for path in Path(__file__).parent.glob("*.toml"))
TABLES = tuple(_table(LanguageTable, keys) for keys in map(_keys, _FILES) if "ids" in keys)
_BY_ID = {name: table for table in TABLES for name in table.ids}
_BY_ALIAS = {alias: table.ids[0] for table in TABLES for alias in table.aliases}
_BY_EXTENSION = {extension: table.ids[0] for table in TABLES for extension in table.extensions}
_BY_NAME = {name: table.ids[0] for table in TABLES for name in table.names}


def table_of(language_id: str) -> LanguageTable:
    """The table for a language id as editors send it; `PLAIN_TEXT` for an unknown one."""
    return _BY_ID.get(language_id, PLAIN_TEXT)


def language_id_of_path(path: str) -> str:
    """The language id of a file, by its name alone; empty for an unknown one."""
    name = PurePath(path)
    return _BY_EXTENSION.get(name.suffix.lower()) or _BY_NAME.get(name.name, "")


_COMMENTS = {
    ("//", ""): "dart fs fsharp groovy kotlin kt objective-c objective-cpp proto scala scss less swift verilog zig",
    ("--", ""): "ada elm haskell hs purescript sql vhdl",
    (";", ""): "asm clj clojure commonlisp el emacs-lisp lisp racket rkt scheme",
    ("%", ""): "erl erlang latex matlab prolog tex",
    ("<!--", "-->"): "astro svelte vue xml xsl",
    ("(*", "*)"): "ml ocaml pascal sml",
    ('"', ""): "vim",
    ("'", ""): "vb",
}
"""The comment marks of languages without a table, by id or extension; `#` for all others."""
_COMMENT_OF = {name: comment for comment, names in _COMMENTS.items() for name in names.split()}
_UNKNOWN = ("", "plaintext")
_MAX_NAME_CHARS = 100


def has_language_hint(language_id: str, name: str) -> bool:
    """Whether the id or the name of a file tells its language."""
    return language_id not in _UNKNOWN or "." in name


def name_comment(language_id: str, name: str) -> str:
    """A comment that tells the name of a file, on a line of its own, and its language if the name does not tell that;
    empty for files that may have no comments, and where neither is known.
    """
    table = table_of(language_id)
    if (
        table in (_BY_ID["json"], _BY_ID["markdown"])
        or language_id == "plaintext"
        or not has_language_hint(language_id, name)
    ):
        return ""
    label = "".join(character for character in name[-_MAX_NAME_CHARS:] if character.isprintable())
    if language_id_of_path(name) not in table.ids and (table is not PLAIN_TEXT or "." not in name):
        label = f"{label} ({language_id})".lstrip()
    if table.line_comment or table.block_comments:
        start, end = (table.line_comment, "") if table.line_comment else table.block_comments[0]
    else:
        suffix = PurePath(name).suffix.removeprefix(".")
        start, end = _COMMENT_OF.get(language_id) or _COMMENT_OF.get(suffix) or ("#", "")
    return f"{start} {label} {end}".rstrip() + "\n"


_EMACS_MODE = re.compile(r"(?:-ts)?(?:-mode)?\Z")
"""What Emacs appends to the name of a language: `python-ts-mode`."""


@lru_cache(maxsize=256)
def resolve_language_id(language_id: str, path: str) -> str:
    """The id under which a document's language has a table: the editor's id if it is known but for case and such, else
    the one that the name of its file tells, else that of another editor's alias, else `language_id` itself.

    The file's name precedes aliases, because a mode may serve several languages: Emacs' `js` also JSON. Of an id with
    dots (Vim's `yaml.ansible`, Sublime's `source.python`), the last known part counts.
    """
    name = _EMACS_MODE.sub("", re.sub(r"[\s_]+", "-", language_id.strip().lower()), count=1)
    names = (name, *reversed(name.split(".")))
    by_id = next((id_ for id_ in names if id_ in _BY_ID), "")
    return (
        by_id or language_id_of_path(path) or next((_BY_ALIAS[id_] for id_ in names if id_ in _BY_ALIAS), language_id)
    )


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

"""One table for each language: the only place where carving knows a language by name.

A table holds node kinds of the language's tree-sitter grammar and a few words; the algorithms read nothing else. To add
a language, add a table and its fixture file. Kinds that a grammar does not have do no harm.
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import PurePath

from tree_sitter import Language

CLOSERS = {"(": ")", "[": "]", "{": "}"}
"""The brackets that carving and balancing know, opening to closing."""


@dataclass(frozen=True)
class Table:
    """What carving has to know of a language. `grammar` is `module:function`; empty where there is no grammar."""

    ids: tuple[str, ...]
    extensions: tuple[str, ...] = ()
    grammar: str = ""
    comments: frozenset[str] = frozenset()
    comment_ends: tuple[str, ...] = ()  # a comment that ends with one of these ends there, not with its line
    line_comment: str = ""
    ignored: frozenset[str] = frozenset()  # nodes that are neither code nor comment, as a line continuation
    strings: frozenset[str] = frozenset()
    interpolations: frozenset[str] = frozenset()  # code inside a string
    brackets: frozenset[str] = frozenset(CLOSERS)
    block_opener: str = ""  # the token that ends a header
    headers: frozenset[str] = frozenset()  # nodes whose block follows their `block_opener`
    header_words: frozenset[str] = frozenset()  # first words of a header the parser could not make sense of
    blocks: frozenset[str] = frozenset()  # nodes that hold statements
    statements: frozenset[str] = frozenset()  # nodes of a statement that is a mere expression
    documented: frozenset[str] = frozenset()  # headers whose block may begin with a documentation string
    argument_lists: frozenset[str] = frozenset()
    operand_ends: frozenset[str] = frozenset({",", ";", ":"})  # tokens that end an expression inside brackets
    word_characters: str = ""  # what belongs to a word beside what an identifier has anywhere
    functions: frozenset[str] = frozenset()  # functions, methods and whatever else has a body of its own
    closures: frozenset[str] = frozenset()  # those of `functions` whose empty body is meant
    classes: frozenset[str] = frozenset()
    wrappers: frozenset[str] = frozenset()  # nodes around a function that belong to it, as its decorators
    fillers: str = ""  # regex: code that stands for missing code, wherever it is
    body_fillers: str = ""  # regex: statements that do so where they are all of a function's body
    settled: str = ""  # regex: found in the header of a function that has no more body on purpose
    abstract: str = ""  # regex: found in the header of a class whose methods have no body on purpose
    declarations: tuple[str, ...] = ()  # extensions of files in which no function has a body
    by_indentation: bool = False  # blocks end where the indentation does
    indent: str = "    "  # one step, where the text shows none


PYTHON = Table(
    ids=("python",),
    extensions=(".py", ".pyi", ".pyw"),
    grammar="tree_sitter_python:language",
    comments=frozenset({"comment"}),
    line_comment="#",
    ignored=frozenset({"line_continuation"}),
    strings=frozenset({"string"}),
    interpolations=frozenset({"interpolation"}),
    block_opener=":",
    headers=frozenset(
        {
            *("function_definition", "class_definition", "with_statement", "for_statement", "while_statement"),
            *("if_statement", "elif_clause", "else_clause", "match_statement", "case_clause"),
            *("try_statement", "except_clause", "except_group_clause", "finally_clause"),
        }
    ),
    header_words=frozenset(
        {
            *("def", "class", "async", "with", "for", "while", "if", "elif", "else", "match", "case"),
            *("try", "except", "finally"),
        }
    ),
    blocks=frozenset({"block", "module"}),
    statements=frozenset({"expression_statement"}),
    documented=frozenset({"function_definition", "class_definition"}),
    argument_lists=frozenset({"argument_list", "parameters"}),
    operand_ends=frozenset({",", ";", ":", "for", "in", "if", "else", "async", "as"}),
    functions=frozenset({"function_definition"}),
    classes=frozenset({"class_definition"}),
    wrappers=frozenset({"decorated_definition"}),
    body_fillers=r"\.\.\.|pass\b|raise NotImplementedError\b(?!.*(?i:subclass|overrid|abstract)).*",
    settled=r"@(?:\w+\.)*(?:abstract\w*|overload)\b",
    abstract=r"\b(?:Protocol|ABC|ABCMeta)\b",
    declarations=(".pyi",),
    by_indentation=True,
)

PLAIN = Table(ids=())
"""For every language without a table of its own: carving goes by indentation."""

TABLES = (PYTHON,)
_BY_ID = {name: table for table in TABLES for name in table.ids}
_BY_EXTENSION = {extension: table.ids[0] for table in TABLES for extension in table.extensions}


def table_of(language_id: str) -> Table:
    """The table of a language id as editors send it; `PLAIN` for one that is not known."""
    return _BY_ID.get(language_id, PLAIN)


def language_of(path: str) -> str:
    """The language id of a file by its name's extension; empty for one that is not known. Does not look at the file."""
    return _BY_EXTENSION.get(PurePath(path).suffix.lower(), "")


@cache
def grammar_of(language_id: str) -> Language | None:
    """The tree-sitter grammar of a language, loaded at its first use; None where none is known or installed."""
    module, _, function = table_of(language_id).grammar.partition(":")
    if not module:
        return None
    try:
        return Language(getattr(import_module(module), function)())
    except ImportError:  # a grammar is a convenience: without it the indentation decides
        return None

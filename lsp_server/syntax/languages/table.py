"""What carving has to know of a language: node kinds of its tree-sitter grammar, and a few words. No behaviour.

Kinds that a grammar does not have do no harm, but a test finds them.
"""

from dataclasses import dataclass

CLOSERS = {"(": ")", "[": "]", "{": "}"}
"""The brackets that carving and balancing know, opening to closing."""

BRACES = r"\{\s*\}"
TODO = r"(?:TODO|FIXME)\b"
UNWRITTEN = r"(?i:not (?:yet )?(?:implemented|supported yet)|unimplemented|to be implemented)"
NOT_FOR_OTHERS = r"(?!.{0,400}(?i:subclass|derived|extending|overrid|abstract|must implement))"
"""What keeps an error that says `subclasses must override this` from being taken for code that is still missing."""

QUOTED = r'"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`(?:\\.|[^`\\])*`'


@dataclass(frozen=True, eq=False)
class LanguageTable:
    """One language. `grammar` is `module:function`; empty where there is no grammar. Regexes are searched for."""

    ids: tuple[str, ...]
    extensions: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # of files that have no extension
    grammar: str = ""

    # words and literals
    comments: frozenset[str] = frozenset()
    block_comments: tuple[tuple[str, str], ...] = ()  # start and end of comments that do not end with their line
    line_comment: str = ""
    ignored: frozenset[str] = frozenset()  # nodes that are neither code nor comment, as a line continuation
    strings: frozenset[str] = frozenset()
    interpolations: frozenset[str] = frozenset()  # code inside a string
    quoted: str = QUOTED  # regex: a string on its looks, where there is no tree yet
    quotes: str = "\"'"  # characters that a string on one line may start with
    word_characters: str = ""  # what belongs to a word beside what an identifier has anywhere

    # expressions
    name: str = "x"  # the shortest one
    statement_end: str = ""  # what makes a statement of one
    argument_lists: frozenset[str] = frozenset()
    operand_ends: frozenset[str] = frozenset({",", ";", ":"})  # tokens that end an expression inside brackets

    # blocks
    openers: frozenset[str] = frozenset()  # tokens behind which a block starts, where their node is a header or block
    headers: frozenset[str] = frozenset()  # nodes that hold an opener, and the block behind it
    data: frozenset[str] = frozenset()  # nodes whose opener starts lines of data rather than statements
    blocks: frozenset[str] = frozenset()  # nodes that hold statements, with or without brackets of their own
    opening: str = ""  # regex: a line, up to the cursor, that opens a block where the tree does not tell
    closers: frozenset[str] = frozenset()  # tokens that end a block
    statements: frozenset[str] = frozenset()  # nodes of a statement that is a mere expression
    documented: frozenset[str] = frozenset()  # headers whose block may begin with a documentation string
    by_indentation: bool = False  # a block ends where the indentation does, at the latest
    indent: str = "    "  # one step, where the text shows none

    # functions, and what stands where their code is still missing
    functions: frozenset[str] = frozenset()  # functions, methods and whatever else has a body of its own
    may_be_empty: frozenset[str] = frozenset()  # those of them whose empty body is meant, and nodes that hold such
    closures: frozenset[str] = frozenset()  # those of them that are part of an expression
    classes: frozenset[str] = frozenset()
    wrappers: frozenset[str] = frozenset()  # nodes around a function that belong to it, as its decorators
    empty: str = ""  # regex: what an empty body looks like
    fillers: str = ""  # regex: code that stands for missing code, wherever it is
    body_fillers: str = ""  # regex: statements that do so where they are all of a function's body
    meant_inline: frozenset[str] = frozenset()  # those of them that are meant where they share the header's line
    settled: str = ""  # regex: found in a function that has no more body on purpose
    abstract: str = ""  # regex: found in the header of a class whose methods have no body on purpose
    declarations: tuple[str, ...] = ()  # extensions of files in which no function has a body


ON_ITS_LINE = r"|^\s*\{\s*$"
"""More of an `opening`, where it is the custom to give the bracket of a block a line of its own."""


def braces(*words: str) -> str:
    """The `opening` of a language with braces: behind a header that starts with one of `words`, `)`, or an arrow."""
    header = rf"^\s*(?:\}}\s*)?(?:[\w@]+\s+)*?(?:{'|'.join(words)})\b[^=;]*"
    return rf"(?:{header}|\)[^;=(){{}}]*|[=-]>[^;={{}}]*)\{{\s*$"

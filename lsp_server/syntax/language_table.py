"""The language facts that the server needs: node kinds of its grammar, regexes and words. No behaviour."""

from dataclasses import dataclass

TODO = r"(?:TODO|FIXME)\b"
UNWRITTEN = r"(?i:not (?:yet )?(?:implemented|supported yet)|unimplemented|to be implemented)"
NOT_FOR_OTHERS = r"(?!.{0,400}(?i:subclass|derived|extending|overrid|abstract|must implement))"
"""Part of a regex, so that an error message such as `subclasses must override this` is not taken for missing code."""

HARMFUL_PATTERNS = {
    "brackets": (r"\((?:[^()]*\(){500}", 0),  # none of which is closed before the next; 4,000 overflow some stacks
    "angles": (r"<(?:[\w,\s]*<){300}", 0),  # the same for types: memory grows with the square of their number
    "arrows": ("=>", 500),  # in languages without such an arrow; memory as above
    "markers": (r"\?\?\?", 1000),  # memory as above
    "levels": (r"^[ \t?:-]{200}", 0),  # 256 levels, which need as many columns, crash the parser
}
"""Regexes, and the most matches: more crash the parsers of some languages, or take all memory."""

QUOTED_PATTERN = r'"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`(?:\\.|[^`\\])*`'
"""The strings of most languages, for tables that name no others."""


@dataclass(frozen=True)
class ImportRules:
    """How a language's files import each other.

    `query` captures a `@module` and, if listed, the imported `@name`s. A module's parts stand between `separator`s; it
    is looked up in each of `folders` in each folder above the document, with each of `suffixes`.
    """

    query: str
    suffixes: tuple[str, ...]
    separator: str = "/"
    folders: tuple[str, ...] = ("", "src")
    roots: tuple[str, ...] = ()  # first parts that stand for one of these folders
    dots_up: bool = False  # each dot before a name goes up one folder, as in Python
    dot_relative: bool = False  # a name that begins with `./` or `../` is looked up beside the document only
    submodules: bool = False  # a name that is imported from a module may be a module itself
    replaced: tuple[str, ...] = ()  # endings of a name that may mean another one of `suffixes`


@dataclass(frozen=True, eq=False)
class BindingRules:
    """Where names are bound and used. A place is `kind.field`, or `kind.` for a child without a field.

    A name is a definition if the way up from it leads through `passes` to one of `binds` or `parameters`. It is bound
    in the nearest enclosing scope, or in the next one out if it is a field of the scope's own node.
    """

    names: frozenset[str]  # kinds of tokens
    scopes: frozenset[str]
    binds: frozenset[str]  # places
    passes: frozenset[str] = frozenset()  # places inside patterns
    parameters: frozenset[str] = frozenset()  # places of parameters, which are bound as well
    redeclared: frozenset[str] = frozenset()  # kinds of nodes with a name that may be declared several times
    typed: frozenset[str] = frozenset()  # kinds of definitions that without a type are constructors
    hoisted: frozenset[str] = frozenset()  # those of `binds` that bind in the nearest function or file
    outside: frozenset[str] = frozenset()  # places inside a scope's node that do not see what it binds
    outward: frozenset[str] = frozenset()  # kinds of statements that name what an outer scope binds
    paths: frozenset[str] = frozenset()  # kinds of imports, whose names are uses of nothing in the file
    fields: tuple[tuple[str, str], ...] = ()  # places of a member's name, and the field with its object
    members: frozenset[str] = frozenset()  # places of definitions of members
    owners: tuple[tuple[str, str], ...] = ()  # kinds that own members, and the field with their name
    selves: frozenset[str] = frozenset()  # names of the object inside its own methods
    assigned: frozenset[str] = frozenset()  # places that define members, such as `self.x = 1`
    keywords: frozenset[str] = frozenset()  # places of names of arguments
    elements: frozenset[str] = frozenset()  # kinds of markup that pass arguments to what their field `name` names
    foreign: frozenset[str] = frozenset()  # places of names of other objects; with `kind/` before, arguments' names
    unparsed: frozenset[str] = frozenset()  # kinds of nodes that hold bare tokens, such as a macro's arguments
    keys: frozenset[str] = frozenset()  # places of members' names in a literal whose type is declared around it
    cases: frozenset[str] = frozenset()  # places where a member of an enumeration has no qualifier
    shorthand: tuple[tuple[str, str], ...] = ()  # kinds or places where one name means two, and the joiner
    quoted: bool = False  # a string may hold a name, as in `__all__`
    calls: tuple[tuple[str, str, str], ...] = ()  # kinds of calls, and the fields with callee and arguments
    awaits: str = ""  # the kind of an awaited expression
    await_before: str = "await "
    await_after: str = ""
    async_result: str | None = None  # wrapper type of an async result, "" if none; None: no keyword makes callers async
    waiters: str = ""  # regex: functions that take a call that is not awaited
    builtins: frozenset[str] = frozenset()  # names that no file needs to define; empty if not all are known
    members_in_scope: bool = False  # a method sees the members of its class as plain names
    shares_folder: bool = False  # files of one folder see each other's names


@dataclass(frozen=True, eq=False)
class LanguageTable:
    """One language. `grammar` is `module:function`, or empty if there is none. Regexes are used with `search`."""

    ids: tuple[str, ...]
    aliases: tuple[str, ...] = ()  # other editors' ids, in lower case, with `-` for spaces and `_`
    extensions: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # of files without an extension
    grammar: str = ""

    # words, strings and comments
    comments: frozenset[str] = frozenset({"comment"})
    block_comments: tuple[tuple[str, str], ...] = ()  # start and end of comments that may span lines
    line_comment: str = ""
    not_before_comment: str = ""  # characters after which `line_comment` starts no comment
    ignored: frozenset[str] = frozenset()  # nodes that are neither code nor comment, such as a line continuation
    strings: frozenset[str] = frozenset()
    interpolations: frozenset[str] = frozenset()  # code inside a string
    string_pattern: str = QUOTED_PATTERN  # regex: what looks like a string, where there is no tree
    quotes: str = "\"'"  # characters that a string on one line may start with
    word_characters: str = ""  # part of a word here, besides what is part of an identifier everywhere

    # expressions
    shortest_expression: str = "x"  # the shortest expression
    statement_end: str = ""  # makes a statement of an expression
    argument_lists: frozenset[str] = frozenset()
    operand_ends: frozenset[str] = frozenset({",", ";", ":"})  # tokens that end an expression inside brackets

    # blocks
    openers: frozenset[str] = frozenset()  # tokens after which a block starts, if their node is a header or a block
    headers: frozenset[str] = frozenset()  # nodes that hold an opener and the block after it
    data: frozenset[str] = frozenset()  # nodes whose opener starts lines of data, not statements
    blocks: frozenset[str] = frozenset()  # nodes that hold statements, with or without their own brackets
    header_words: str = ""  # words that begin a line before a block in braces
    brace_below: bool = False  # by convention, that block's bracket is on a separate line
    opening: str = ""  # regex: a line up to the cursor that opens a block, where the tree does not tell
    closers: frozenset[str] = frozenset()  # tokens that end a block
    statements: frozenset[str] = frozenset()  # nodes of statements that are just an expression
    documented: frozenset[str] = frozenset()  # headers whose block may begin with a documentation string
    by_indentation: bool = False  # a block ends with its indentation, at the latest
    indent: str = "    "  # one step, where the text shows none

    # functions, and placeholders for their missing code
    functions: frozenset[str] = frozenset()  # functions, methods and whatever else has a body
    closures: frozenset[str] = frozenset()  # those that are part of an expression, and may be empty
    may_be_empty: frozenset[str] = frozenset()  # others whose body may be empty on purpose, and nodes that hold them
    body_arrows: frozenset[str] = frozenset()  # tokens that start a body which is an expression, and belong to its node
    classes: frozenset[str] = frozenset()
    wrappers: frozenset[str] = frozenset()  # nodes around a function that belong to it, such as its decorators
    empty: str = ""  # regex: what an empty body looks like
    fillers: str = ""  # regex: a placeholder for missing code, anywhere
    body_fillers: str = ""  # regex: statements that are placeholders if they are a function's whole body
    meant_inline: frozenset[str] = frozenset()  # those that are intentional if they share the header's line
    empty_on_purpose: str = ""  # regex: found in a function whose body is empty on purpose
    abstract: str = ""  # regex: found in the header of a class whose methods have no body on purpose
    declarations: tuple[str, ...] = ()  # extensions of files in which no function has a body

    harmful: tuple[str, ...] = ()  # those of `HARMFUL_PATTERNS` that matter here
    binding: BindingRules | None = None  # None: no next edit follows from a rename or a signature
    imports: ImportRules | None = None  # None: imports of such a file are not looked up

    def __post_init__(self) -> None:
        if self.header_words:  # after one of them, a `)`, or an arrow
            words = self.header_words.replace(" ", "|")
            header = rf"^\s*(?:\}}\s*)?(?:[\w@]+\s+)*?(?:{words})\b[^=;]*"
            opening = rf"(?:{header}|\)[^;=(){{}}]*|[=-]>[^;={{}}]*)\{{\s*$"
            object.__setattr__(self, "opening", opening + (r"|^\s*\{\s*$" if self.brace_below else ""))

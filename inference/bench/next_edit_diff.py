"""Groups the changes between two releases of a file, as test cases for `infill-ls bench next-edit`.

A change follows from the first if it replaces the same words by the same words, passes on a name that the first one
adds, or is a call of the function that one defines; and if it needs no word that is in neither.
"""

import difflib
import keyword
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from inference.bench.next_edit_cases import LineChange

_TOKEN = re.compile(r"[A-Za-z_$][\w$]*|\d[\w.]*|\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`|#[^\n]*|//[^\n]*|\s+|.", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_$0-9\"'`]")
_EVERYWHERE = """self cls None True False str int bool float dict list tuple set object type Any Optional Union const
let var function this null undefined true false new async await return export import string number boolean void"""
_COMMON = frozenset([*keyword.kwlist, *_EVERYWHERE.split()])
_LINES_OF_FIRST, _LINES_OF_NEXT = 6, 3
_MOST_HUNKS = 60
_FULL_COVER = 6

Replacement = tuple[tuple[str, ...], tuple[str, ...]]


def related_groups(found: Sequence[LineChange]) -> Iterator[list[LineChange]]:
    """Groups of two to six changes, each following from the first of them, in order; no change is in two of them."""
    if len(found) > _MOST_HUNKS:
        return
    left = [one for one in found if is_of_code(one)]
    while left:
        first, *left = left
        if _height(first) > _LINES_OF_FIRST:
            continue
        group = [other for other in left if follows(first, other)]
        if group:
            left = [one for one in left if one not in group]
            if len(group) < _FULL_COVER:
                yield [first, *group]


def is_alone(one: LineChange, found: Sequence[LineChange]) -> bool:
    """Whether a change shares no word with any other, so that nothing follows from it."""
    mine = _telling(one)
    return all(one is other or not mine & _telling(other) for other in found)


def follows(first: LineChange, other: LineChange) -> bool:
    """Whether `other` is predictable from `first`."""
    if not 0 < _height(other) <= _LINES_OF_NEXT or not is_of_code(other):
        return False
    known = {*_words(first.old), *_words(first.new), *_words(other.old), *_COMMON}
    if not known.issuperset(_words(other.new)):
        return False
    return _is_repeated(first, other) or (not _imports(first) and (_is_passed_on(first, other) or _calls(first, other)))


def _is_repeated(first: LineChange, other: LineChange) -> bool:
    """Whether `first` also replaces everything that `other` replaces."""
    mine, its = set(_replacements(first.old, first.new)), set(_replacements(other.old, other.new))
    shared = {one for one in mine & its if _says_something(one)}
    if not other.old:  # lines are added; only the surrounding lines can say where
        return bool(shared) and bool(first.old) is False
    return bool(shared) and all(one in shared or not any(map(_WORD.match, one[0] + one[1])) for one in its)


def _is_passed_on(first: LineChange, other: LineChange) -> bool:
    """Whether `first` adds a name, such as a parameter, and `other` only uses it."""
    added, used = _added(first), _added(other)
    gone = set(_words(other.old)) - set(_words(other.new)) - _COMMON
    if not used or not used <= added or gone - _telling(first):
        return False
    return all(_is_defined(name, first.new) and _is_handed_on(name, other.new) for name in used)


def _is_defined(name: str, text: str) -> bool:
    return bool(re.search(rf"^\s*{re.escape(name)}\s*(:|=(?!=))|def \w+\(.*\b{re.escape(name)}\b", text, re.MULTILINE))


def _is_handed_on(name: str, text: str) -> bool:
    x = re.escape(name)
    return bool(re.search(rf"\b{x}(: [^=]+)?\s*=\s*{x}\b|[(,]\s*{x}\s*[,)]|^\s*{x},", text, re.MULTILINE))


def _calls(first: LineChange, other: LineChange) -> bool:
    """Whether the first line of a function changes, together with a line that calls it, in the same words."""
    named = {name for name in _defined(first) if f"{name}(" in other.old and f"{name}(" in other.new}
    return bool(named) and bool(_telling(first) & _telling(other))


def _imports(change: LineChange) -> bool:
    return (change.new or change.old).lstrip().startswith(("import ", "from ", "export {", "const {"))


def is_of_code(change: LineChange) -> bool:
    """Whether more than white space, comments and version numbers changes."""
    old, new = _code(change.old), _code(change.new)
    return old != new and "version" not in (change.old + change.new).lower()


def _height(change: LineChange) -> int:
    return max(change.old.count("\n"), change.new.count("\n"))


@lru_cache(maxsize=100_000)
def _tokens(text: str) -> tuple[str, ...]:
    return tuple(token for token in _TOKEN.findall(text) if not token.isspace())


def _code(text: str) -> list[str]:
    return [token for token in _tokens(text) if not token.startswith(("#", "//"))]


def _words(text: str) -> list[str]:
    return [token for token in _code(text) if _WORD.match(token)]


@lru_cache(maxsize=100_000)
def _replacements(old: str, new: str) -> tuple[Replacement, ...]:
    before, after = _code(old), _code(new)
    found = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return tuple((tuple(before[a:b]), tuple(after[c:d])) for tag, a, b, c, d in found if tag != "equal")


def _says_something(replacement: Replacement) -> bool:
    return any(_WORD.match(token) and token not in ("self", "None") for side in replacement for token in side)


def _telling(change: LineChange) -> frozenset[str]:
    """Words that a change adds or removes, except those that occur in every file."""
    both = [set(_words(side)) for side in (change.old, change.new)]
    return frozenset((both[0] ^ both[1]) - _COMMON)


def _added(change: LineChange) -> frozenset[str]:
    return frozenset(set(_words(change.new)) - set(_words(change.old)) - _COMMON)


def _defined(change: LineChange) -> frozenset[str]:
    """Names of functions and classes whose first line changes."""
    return frozenset(re.findall(r"\b(?:def|class|function)\s+(\w{3,})", change.new)) - _COMMON - {"__init__"}

"""Finds what is missing after lines were added: the same beside their neighbour elsewhere."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lsp_server.next_edit.edit_history import Comparison, Hunk
from lsp_server.next_edit.names import Name, Names, Role
from lsp_server.next_edit.renames import Compared, NextEdit
from lsp_server.syntax.lines import eol_at, line_end, line_start

_WORD = re.compile(r"[^\W\d]\w*")
_LONGEST_LINE = 500
"""A longer line is no declaration of a field."""
_ITEM = re.compile(
    r"(?P<shape>[ \t]*(?:(?:public|private|protected|readonly|static|pub|let|const|var) +|self\.|this\.)*)"
    r"(?P<name>[A-Za-z_]\w*) *(?P<mark>[:=,?])"
)
_PLAIN = re.compile(r"[\w.]+|\"\w+\"|'\w+'")
_SELF = frozenset({"self", "this"})
_STORED = re.compile(r"\s*((?:self|this)\.\w+) = ")
_MOST_LINES = 8
_FAR_LINES = 30
"""How far above an added line its neighbour may be, behind comments and strings."""


def field_in(names: Names, start: int) -> Name | None:
    """The only field that a line defines."""
    text = names.view.text
    line = text[start : line_end(text, start)]
    if len(line) > _LONGEST_LINE or "(" in line:
        return None
    found = [names.at(start + match.start()) for match in _WORD.finditer(line)]
    members = [name for name in found if name is not None and name.role is Role.MEMBER and not name.receiver]
    if len(members) != 1 or any(node.type in names.view.table.functions for node in members[0].above):
        return None
    is_entry = names.place(members[0].node, members[0].above[0]) in names.rules.keys  # of an object
    return None if is_entry else members[0]


@dataclass(frozen=True)
class _Item:
    """A line that is about one name. `start` and `end` are its bounds without the line break."""

    start: int
    end: int
    line: str
    name: str
    shape: tuple[str, str]


def after_additions(compared: Compared) -> Iterator[NextEdit]:
    """The places that lack what was added elsewhere, in order of the additions."""
    texts = compared.texts
    for hunk in texts.hunks:
        added = _added(compared.new, texts, hunk)
        neighbour = _above(compared.new, texts.new, added[0]) if added else None
        if neighbour is None or ("=" not in neighbour.line and any("=" in item.line for item in added)):
            continue
        if neighbour.name not in {item.name for item in added}:
            yield from _missing(compared, added, neighbour)


def _added(names: Names, texts: Comparison, hunk: Hunk) -> list[_Item]:
    """The items among whole new lines, all of the same shape; none if the change did more."""
    lines = texts.added_lines(hunk)
    if lines is None or texts.new.count("\n", *lines) >= _MOST_LINES:
        return []
    items = [item for item in _items(names, texts.new, *lines) if item is not None]
    return [item for item in items if item.shape == items[0].shape]


def _items(names: Names, text: str, start: int, end: int) -> Iterator[_Item | None]:
    """The lines of [start, end), whole lines, in order; None for those that are about no name."""
    for line in text[start:end].split("\n"):
        if found := _ITEM.match(line):
            yield _Item(start, start + len(line), line, found["name"], (found["shape"], found["mark"]))
        elif field := field_in(names, start):
            yield _Item(start, start + len(line), line, field.text, (line[: len(line) - len(line.lstrip())], ""))
        else:
            yield None
        start += len(line) + 1


def _above(names: Names, text: str, added: _Item) -> _Item | None:
    """The nearest item of that shape above, with only comments, strings and blank lines between."""
    end = added.start
    for _ in range(_FAR_LINES):
        if end == 0:
            return None
        start = line_start(text, end - 1)
        item = next(_items(names, text, start, end - 1))
        end = start
        if item is not None and item.shape == added.shape:
            return item
        words = text[start : line_end(text, start)]
        if words.strip() and not names.view.literal_at(start + len(words) - len(words.lstrip())):
            return None
    return None


def _missing(compared: Compared, added: Sequence[_Item], neighbour: _Item) -> Iterator[NextEdit]:
    texts, text = compared.texts, compared.texts.new
    for match in re.finditer(rf"\b{neighbour.name}\b", text):
        start = line_start(text, match.start())
        end = line_end(text, match.start())
        line = text[start:end]
        if start == neighbour.start or texts.is_new(start, end) or line.index(neighbour.name) != match.start() - start:
            continue
        lines = [_like(line, neighbour, item) for item in added]
        around = _around(text, start, end)
        if all(lines) and not any(_is_there(around, line, item) for line, item in zip(lines, added, strict=True)):
            why = f"beside {neighbour.name}: {', '.join(item.name for item in added)}"
            yield NextEdit(end, end, "".join(eol_at(text, start) + each for each in lines), why)


def _is_there(around: str, line: str, item: _Item) -> bool:
    """Whether the lines around already do what a new line would do, or use its name otherwise."""
    stored = _STORED.match(line)
    sought = rf"{re.escape(stored[1])}\b" if stored else rf"\b{re.escape(item.name)}\b"
    return re.search(sought, around) is not None


def _like(line: str, neighbour: _Item, item: _Item) -> str:
    """The line for an added item beside a line about its neighbour; empty if that is not certain."""
    bare, ending = line.strip().rstrip(",;"), line.rstrip()[len(line.rstrip().rstrip(",;")) :]
    indentation = line[: len(line) - len(line.lstrip())]
    if bare == neighbour.line.strip().rstrip(",;") and ending:
        return indentation + item.line.strip().rstrip(",;") + ending
    words = _WORD.findall(bare)
    is_assigned = " = " in bare or ("=" in bare and bool(ending))
    is_certain = words.count(neighbour.name) > 1 if is_assigned else bool(ending and _PLAIN.fullmatch(bare))
    if set(words) - _SELF != {neighbour.name} or not is_certain:
        return ""
    return re.sub(rf"\b{neighbour.name}\b", item.name, line.rstrip())


def _around(text: str, start: int, end: int) -> str:
    """The lines around one that are indented at least as much."""
    depth = len(text[start:end]) - len(text[start:end].lstrip())
    first, last = start, end
    while first > 0 and _is_inside(text, line_start(text, first - 1), depth):
        first = line_start(text, first - 1)
    while last < len(text) and _is_inside(text, last + 1, depth):
        last = line_end(text, last + 1)
    return text[first:last]


def _is_inside(text: str, start: int, depth: int) -> bool:
    line = text[start : line_end(text, start)]
    return not line.strip() or len(line) - len(line.lstrip()) >= depth

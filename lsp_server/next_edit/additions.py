"""Finds what is missing after a line or a field was added: the same beside its neighbour elsewhere."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tree_sitter import Node

from lsp_server.next_edit.members import is_typed
from lsp_server.next_edit.names import Name, Names, Role
from lsp_server.next_edit.recent import Comparison, Hunk
from lsp_server.next_edit.renames import Compared, NextEdit
from lsp_server.syntax.lines import eol_at, line_end, line_start
from lsp_server.syntax.view import View

_MODIFIERS = re.compile(
    r"^(?:(?:public|private|protected|internal|readonly|static|final|transient|volatile|mutable|override|virtual|"
    r"abstract|declare|required|pub(?:\([^)]*\))?) +)*"
)
_VALUE = re.compile(r"\s*=[^=].*$")
_WORD = re.compile(r"[^\W\d]\w*")
_BRACKETS = frozenset({"()", "{}"})
_LONGEST_LINE = 500
"""A longer line is no declaration of a field."""
_SELVES = frozenset({"Self", "cls"})
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


@dataclass(frozen=True)
class Field:
    """A field of a class, with its declaration as a parameter would have it."""

    name: Name
    declared: str
    has_value: bool


def after_fields(compared: Compared) -> Iterator[NextEdit]:
    """The lists that lack a new field beside its neighbour, in order of the fields."""
    names, texts = compared.new, compared.texts
    for hunk in texts.hunks:
        start, _ = texts.added_lines(hunk) or (0, 0)
        added = field_in(names, start) if start else None
        neighbour = field_in(names, line_start(texts.new, start - 1)) if added is not None else None
        if added is None or neighbour is None or added.has_value > neighbour.has_value:
            continue
        if neighbour.name.owner == added.name.owner:
            yield from _lists(compared, neighbour, added)


def field_in(names: Names, start: int) -> Field | None:
    """The only field that a line defines."""
    text = names.view.text
    line = text[start : line_end(text, start)]
    if len(line) > _LONGEST_LINE:
        return None
    found = [names.at(start + match.start()) for match in _WORD.finditer(line)]
    members = [name for name in found if name is not None and name.role is Role.MEMBER and not name.receiver]
    if len(members) != 1 or "(" in line or any(node.type in names.view.table.functions for node in members[0].above):
        return None
    if names.place(members[0].node, members[0].above[0]) in names.rules.keys:  # an entry of an object
        return None
    declared = _VALUE.sub("", _MODIFIERS.sub("", line.strip().rstrip(",;")))
    return Field(members[0], " ".join(declared.split()), "=" in line)


def _lists(compared: Compared, neighbour: Field, added: Field) -> Iterator[NextEdit]:
    names, view = compared.new, compared.new.view
    done, word = set[int](), neighbour.name.text
    for match in re.finditer(rf"\b{re.escape(word)}\b", view.text):
        element, listed = _element(names, match.start())
        if element is None or listed is None or listed.id in done:
            continue
        end = view.end(element)
        text = _beside(names, match.start(), element, listed, neighbour, added)
        is_there = added.name.text in _WORD.findall(view.code(listed))
        if text and not is_there and not compared.texts.is_new(view.start(element), end):
            done.add(listed.id)
            at, text = _placed(view, element, listed, text)
            yield from [NextEdit(at, at, text, f"beside {word}: {added.name.text}")] if text else []


def _placed(view: View, element: Node, listed: Node, text: str) -> tuple[int, str]:
    """Where the element goes, and with what around it: on the same line, or on one of its own."""
    end = view.end(element)
    if listed.start_point.row == listed.end_point.row:
        return end, f", {text}"
    start = line_start(view.text, end)
    stop = line_end(view.text, end)
    line = view.text[start:stop]
    before = eol_at(view.text, start) + line[: len(line) - len(line.lstrip())]
    if line.strip().startswith(view.code(element)) and view.text[end:stop].lstrip()[:1] in ("", ")", "}"):
        return end, f",{before}{text}"
    return stop, f"{before}{text}," if line.strip() == view.code(element) + "," else ""


def _element(names: Names, offset: int) -> tuple[Node | None, Node | None]:
    """The element of a list that is around `offset`, and the list."""
    nodes = names.view.ancestors(names.view.leaf_at(offset))
    for element, listed in pairwise(nodes):
        ends = "".join(names.view.code(child) for child in (listed.children[0], listed.children[-1]))
        if ends in _BRACKETS and listed.type not in names.view.table.blocks:
            return element, listed
    return None, None


def _beside(names: Names, offset: int, element: Node, listed: Node, neighbour: Field, added: Field) -> str:
    """The element for a new field beside that of its neighbour; empty if that is not certain."""
    view = names.view
    word = neighbour.name.text
    new = added.name.text
    code = " ".join(view.code(element).split())
    owner = added.name.owner
    above = view.ancestors(listed)
    if code == neighbour.declared:
        function = next((node for node in above[:2] if node.type in view.table.functions), None)
        return added.declared if function is not None and _makes(names, function, owner) else ""
    at = names.at(offset)
    is_literal = at is not None and at.role is Role.KEYWORD and at.receiver == owner
    if not is_literal and _maker(names, above) not in {owner} | (_SELVES if names.owner(above) == owner else set()):
        return ""
    if like := _like_others(names, listed, code, neighbour, added):
        return like
    passed = re.fullmatch(rf"{word} ?[=:] ?(?:(\w+)\.)?{word}", code)
    receiver = passed[1] if passed else None
    at = None if receiver is None else names.at(view.start(element) + view.code(element).index(receiver + "."))
    if (passed and not receiver) or (code == word and "shorthand" in element.type + str(view.leaf_at(offset))):
        is_known = _is_at_hand(names, offset, neighbour, new)
    else:
        of_itself = receiver in names.rules.selves and names.owner(above) == owner
        is_known = of_itself or (at is not None and _has_field(names, at, owner, new))
    return re.sub(rf"\b{word}\b", new, code) if is_known else ""


def _like_others(names: Names, listed: Node, code: str, neighbour: Field, added: Field) -> str:
    """The element for a new field if its neighbour's differs from another field's only in the names."""
    word, new = neighbour.name.text, added.name.text
    shape = re.sub(rf"\b{word}\b", "\0", code)
    is_same_type = neighbour.declared.replace(word, new, 1) == added.declared
    if "?" in added.declared or not shape.startswith("\0") or (shape.count("\0") < 2 and not is_same_type):
        return ""
    for element in listed.named_children:
        other = " ".join(names.view.code(element).split())
        first = _WORD.match(other)
        if first and first[0] != word and re.sub(rf"\b{first[0]}\b", "\0", other) == shape != "\0":
            return shape.replace("\0", new)
    return ""


def _is_at_hand(names: Names, offset: int, neighbour: Field, word: str) -> bool:
    """Whether a variable for the new field is visible there, or its neighbour is a parameter, which it follows."""
    function = next(
        (each for each in names.view.ancestors(names.view.leaf_at(offset)) if each.type in names.view.table.functions),
        None,
    )
    if function is None:
        return False
    scopes = {function.id, *names.scopes_at(offset)}
    if any(name.binder is not None and name.binder.id in scopes for name in names.all(word)):
        return True
    listed = function.child_by_field_name("parameters")
    declared = () if listed is None else listed.named_children
    return neighbour.declared in {" ".join(names.view.code(each).split()) for each in declared}


def _makes(names: Names, function: Node, owner: str) -> bool:
    """Whether a function is a constructor of a class, or one that says it returns an instance."""
    body = function.child_by_field_name("body")
    end = names.view.end(function) if body is None else names.view.start(body)
    head = names.view.text[names.view.start(function) : end]
    words = set(_WORD.findall(head))
    is_inside = names.owner(names.view.ancestors(function)) == owner
    return owner in words or (is_inside and bool(words & {"Self", "constructor", "__init__"}))


def _maker(names: Names, above: list[Node]) -> str:
    """The class whose instance a list makes; empty if that is not certain."""
    for kind, called, arguments in names.rules.calls:
        for node in above[1:2]:
            listed = node.child_by_field_name(arguments)
            maker = node.child_by_field_name(called)
            if node.type == kind and maker is not None and listed is not None and listed.id == above[0].id:
                return names.view.code(maker)
    return ""


def _has_field(names: Names, receiver: Name, owner: str, word: str) -> bool:
    """Whether an object has the new field: it is of that class, or of another one with such a field."""
    owners = {name.owner for name in names.all(word) if name.role is Role.MEMBER}
    of_itself = names.itself(receiver, receiver.text)
    if of_itself:
        return of_itself in owners
    at = next((each for each in names.all(receiver.text) if each.start == receiver.start), receiver)
    probe = Name(at.start, at.end, at.text, at.role, at.node, at.above, at.scopes, receiver=receiver.text)
    return is_typed(names, probe, owners | {owner})


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
            yield _Item(start, start + len(line), line, field.name.text, (line[: len(line) - len(line.lstrip())], ""))
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

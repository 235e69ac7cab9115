"""Finds what is missing in constructors after a class got a field: the same beside its neighbour."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tree_sitter import Node

from lsp_server.next_edit.members import is_typed
from lsp_server.next_edit.names import Name, Names, Role
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

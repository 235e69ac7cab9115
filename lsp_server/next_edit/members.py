"""Tells which occurrences of a name mean a certain member of a class, or call a certain function."""

import re
from collections.abc import Collection, Iterator
from itertools import pairwise, takewhile

from tree_sitter import Node

from lsp_server.next_edit.names import NameIndex, Occurrence, Role

_DISTINCT = re.compile(r"\w_\w|[a-z][A-Z]|^_\w{3}")
"""A name of several words, or a private one, hardly belongs to an unrelated member."""
_TARGETS = frozenset(
    {
        *("expression_list", "pattern_list", "tuple_pattern"),
        *("pointer_declarator", "reference_declarator", "array_declarator"),
    }
)
"""Kinds of nodes between names and the statement that defines them."""
_NAMESAKE = 3
"""The shortest name of a class that tells what a variable of the same name is."""
_INSIDE_TYPE = re.compile(r"type_arguments|type_parameter|subscript|generic")
"""Kinds of nodes in which a type is an argument of another one."""


def is_bound_by_scope(names: NameIndex, name: Occurrence, scope: int) -> bool:
    """Whether nothing between a name and `scope` binds it."""
    if name.binder is not None:
        return name.binder.id == scope
    binding = names.binding_scope_ids(name.text) | {scope}
    return next((inner for inner in name.scopes if inner in binding), 0) == scope


def unique_function_of_parameter(names: NameIndex, parameter: Occurrence) -> Occurrence | None:
    """The name of the function that a parameter belongs to, if only one function has that name."""
    node = None if parameter.binder is None else parameter.binder.child_by_field_name("name")
    function = None if node is None else names.at_offset(names.view.start(node))
    return function if function is not None and is_unique_function(names, function) else None


def is_unique_function(names: NameIndex, function: Occurrence) -> bool:
    """Whether only one function has that name, or it is the constructor of a class."""
    defined = (
        name for name in names.occurrences(function.text) if name.role in (Role.DEFINITION, Role.MEMBER, Role.PARAMETER)
    )
    return function.text == "__init__" or sum(1 for _ in defined) == 1


def is_call_of(names: NameIndex, occurrence: Occurrence, callee: str, function: Occurrence) -> bool:
    """Whether the callee at a name is `function`, as far as the text shows."""
    receiver, dot, last = callee.rpartition(".")
    if function.role is not Role.MEMBER:
        return not dot and last == function.text
    if not dot and names.rules.members_in_scope and function.binder is not None:
        is_own = occurrence.role is Role.KEYWORD and names.class_around(occurrence.ancestors) == function.owner
        return last == function.text and (is_own or names.binding_scope_id(occurrence) == function.binder.id)
    if function.text == "__init__":
        return callee == function.owner
    return last == function.text and bool(dot) and _is_instance(names, occurrence, receiver, function.owner, last)


def _is_instance(names: NameIndex, near: Occurrence, receiver: str, owner: str, member: str) -> bool:
    """Whether `receiver` is probably an `owner`: by its name, its definition, or as no other class has the member."""
    if own_class := names.own_class(near, receiver):
        return own_class == owner
    if receiver == owner or (len(owner) >= _NAMESAKE and receiver.replace("_", "").lower() == owner.lower()):
        return True
    return bool(_DISTINCT.search(member)) or _is_made_from(names, near, receiver, owner)


def _is_made_from(names: NameIndex, near: Occurrence, receiver: str, owner: str) -> bool:
    """Whether each definition of `receiver` names `owner`, as `x = Owner()` and `x: Owner` do."""
    definitions = names.definitions(receiver, near)
    pattern = rf"(?<!\w){re.escape(owner)}(?!\w)"
    return bool(definitions) and all(re.search(pattern, defining_line(names, name)) for name in definitions)


def defining_line(names: NameIndex, name: Occurrence) -> str:
    """The first line of the code that defines a name; for a parameter, only the parameter."""
    wider = (node for node in name.ancestors if node.byte_range != name.node.byte_range and node.type not in _TARGETS)
    node = next(wider, name.node)
    if node.type in names.view.table.argument_lists:
        return name.text
    return names.view.code(node).partition("\n")[0][:200]


def uses_of_member(old_names: NameIndex, names: NameIndex, old: Occurrence, new: Occurrence) -> Iterator[Occurrence]:
    """Uses of a renamed member, in its class, in those derived from it, and wherever the receiver identifies it."""
    owners = _derived_classes(names, new.owner)
    if not old.owner or not owners.isdisjoint(name.owner for name in old_names.occurrences(new.text)):
        return
    definitions = [
        name for name in old_names.occurrences(old.text) if name.role is Role.MEMBER and name.owner == old.owner
    ]
    if not definitions or definitions[0].start != old.start:  # it was already defined
        return
    remaining = (name for name in names.occurrences(old.text) if name.role is Role.MEMBER and name.owner == old.owner)
    if any(not name.receiver for name in remaining):  # it still has a definition
        return
    is_unique = old_names.owners_of(old.text) <= owners
    for name in names.occurrences(old.text):
        if _means_member(names, name, new, owners, is_unique=is_unique):
            yield name


def _derived_classes(names: NameIndex, owner: str) -> set[str]:
    """A class and those that the file derives from it."""
    classes, new = set[str](), {owner}
    while new:
        classes |= new
        uses = (name for word in new for name in names.occurrences(word) if name.role is Role.USE)
        new = {derived for name in uses if (derived := _derived_class(names, name))} - classes
    return classes


def _derived_class(names: NameIndex, name: Occurrence) -> str:
    """The class whose head names another one; empty if it does not derive from it."""
    classes = dict(names.rules.owners)
    inner = list(takewhile(lambda node: node.type not in classes, name.ancestors))
    class_ = name.ancestors[len(inner)] if len(inner) < len(name.ancestors) else None
    body = None if class_ is None else class_.child_by_field_name("body")
    if body is None or name.start > names.view.start(body) or any(_INSIDE_TYPE.search(node.type) for node in inner):
        return ""
    return names.class_around(name.ancestors)


def _means_member(
    names: NameIndex, name: Occurrence, new: Occurrence, owners: Collection[str], *, is_unique: bool
) -> bool:
    """Whether `name` means the member now called `new`.

    `is_unique`: only `owners` have a member of that name.
    """
    match name.role:
        case Role.MEMBER | Role.FIELD if name.owner:
            return name.owner in owners
        case Role.FIELD:
            if name.receiver in owners or _has_declared_type(names, name, owners):
                return True
            return is_unique and any(_is_instance(names, name, name.receiver, owner, name.text) for owner in owners)
        case Role.KEYWORD:
            return name.receiver in owners
        case Role.USE if new.binder is not None and is_bound_by_scope(names, name, new.binder.id):
            return True
        case Role.USE:
            is_case = names.field_path(name.node, name.ancestors[0]) in names.rules.cases
            return is_unique and is_case and not names.binding_scope_id(name)
    return False


def _has_declared_type(names: NameIndex, use: Occurrence, owners: Collection[str]) -> bool:
    """Whether the definition of a receiver says that it is one of the `owners`, and nothing made of them."""
    word = re.escape(use.receiver)
    any_owner = "|".join(map(re.escape, owners))
    by_type = rf"{word}\??(?:, *\w+)*(?: *:=?| *=|) *(?:&mut |[&*])?(?:new |await )?(?:{any_owner})(?: *[={{(,]|::|$)"
    by_prefix = rf"(?:{any_owner}) +{word}\b"
    definitions = names.definitions(use.receiver, use)
    return bool(definitions) and all(
        re.search(rf"(?<!\w)(?:{by_type}|{by_prefix})", defining_line(names, name)) for name in definitions
    )


def parameter_declaration(names: NameIndex, parameter: Occurrence) -> Node:
    """A whole parameter, with its type."""
    lists = names.view.table.argument_lists
    nodes = [parameter.node, *parameter.ancestors]
    return next((node for node, parent in pairwise(nodes) if parent.type in lists), parameter.node)

"""Finds what no longer fits after a change of a function's parameters: the arguments of its calls, if certain."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tree_sitter import Node

from lsp_server.next_edit.members import calls, declaration, is_alone
from lsp_server.next_edit.names import Name, Names, Role
from lsp_server.next_edit.renames import Compared, NextEdit, trimmed
from lsp_server.syntax.view import View

_MANY = re.compile(r"splat|rest|variadic|spread|separator|self_parameter|^[*/]$")
"""Kinds of parameters and arguments that represent several, or none."""
_HALF_TYPED = re.compile(r",\s*[,)]|\(\s*,")


@dataclass(frozen=True)
class _Call:
    """A call of a function: the name in it, its node, and its arguments."""

    name: Name
    node: Node
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class _Function:
    """A function whose head has changed, in both texts."""

    old: Node
    node: Node
    name: Name


def after_signatures(compared: Compared) -> Iterator[NextEdit]:
    """The calls that no longer fit the functions with changed heads."""
    for function in changed_functions(compared):
        yield from _after_parameters(compared, function)


def changed_functions(compared: Compared) -> Iterator[_Function]:
    seen = set[int]()
    for hunk in compared.texts.hunks:
        old = _function_over(compared.old, hunk.old_start)
        new = _function_over(compared.new, hunk.start)
        if old is None or new is None or new.id in seen:
            continue
        seen.add(new.id)
        name = _name_of(compared.new, new)
        before = _name_of(compared.old, old)
        if name is None or before is None or name.text != before.text:
            continue
        yield _Function(old, new, name)


def _function_over(names: Names, offset: int) -> Node | None:
    """The function whose head contains `offset`."""
    view = names.view
    leaf = view.leaf_at(min(offset, len(view.text) - 1))
    for node in view.ancestors(leaf):
        if node.type in view.table.functions:
            body = node.child_by_field_name("body")
            return node if body is None or offset < view.start(body) else None
    return None


def _name_of(names: Names, function: Node) -> Name | None:
    """The name of a function, or of the variable that holds it."""
    named = function.child_by_field_name("name")
    if named is None and function.parent is not None:
        named = function.parent.child_by_field_name("name")
    return None if named is None else names.at(names.view.start(named))


def _parameters(names: Names, function: Node) -> list[Name] | None:
    """The parameters in order, without the object itself; None if one represents several."""
    view = names.view
    listed = function.child_by_field_name("parameters")
    found: list[Name] = []
    for child in () if listed is None else listed.named_children:
        if child.type in view.table.comments or child.type == "self_parameter":
            continue
        if _MANY.search(child.type) or any(_MANY.search(inner.type) for inner in child.named_children):
            return None
        named = [names.at(view.start(leaf)) for leaf in view.leaves(view.start(child), view.end(child))]
        found += [name for name in named if name is not None and name.role is Role.PARAMETER]
    return found[1:] if found and found[0].text in names.rules.selves else found


def _after_parameters(compared: Compared, function: _Function) -> Iterator[NextEdit]:
    """The calls without the argument of a removed parameter, in the new order, or with a new one's argument."""
    was = _parameters(compared.old, function.old)
    parameters = _parameters(compared.new, function.node)
    listed = function.node.child_by_field_name("parameters")
    if was is None or parameters is None or listed is None or _HALF_TYPED.search(compared.new.view.code(listed)):
        return
    old, new = ([name.text for name in each] for each in (was, parameters))
    gone = [name for name in old if name not in new]
    added = [name for name in parameters if name.text not in old]
    is_reordered = [name for name in old if name in new] != [name for name in new if name in old]
    if len(gone) + len(added) + is_reordered != 1 or len(set(new)) < len(new):
        return
    view = compared.new.view
    for call in _calls(compared, function.name):
        by_name = [_keyword_of(compared.new, each) for each in call.arguments]
        positional = next((at for at, keyword in enumerate(by_name) if keyword), len(by_name))
        given = [*old[:positional], *by_name[positional:]]
        is_certain = len(given) == len(by_name) and all(by_name[positional:])
        if not is_certain or any(_MANY.search(each.type) for each in call.arguments):  # how many they are is not known
            continue
        codes = [*map(view.code, call.arguments)]
        gaps = [view.text[view.end(left) : view.start(right)] for left, right in pairwise(call.arguments)]
        if gone and gone[0] in given:
            at = given.index(gone[0])
            del codes[at], gaps[max(at - 1, 0) : max(at, 1)]
            why = f"no longer takes {gone[0]}"
        elif is_reordered and set(given[:positional]) == set(new[:positional]):
            codes[:positional] = [codes[old.index(name)] for name in new[:positional]]
            why = "takes its arguments in another order"
        elif added and (at := new.index(added[0].text)) <= positional and _has_variable(compared.new, call, added[0]):
            gaps[at:at] = [", "] if codes else []
            codes.insert(at, added[0].text)
            why = f"takes {added[0].text} now"
        else:
            continue
        text = "".join(code + gap for code, gap in zip(codes, [*gaps, ""], strict=False))
        yield from _with_arguments(view, call, text, f"{call.name.text} {why}")


def _with_arguments(view: View, call: _Call, text: str, why: str) -> Iterator[NextEdit]:
    """The call with other arguments."""
    if call.arguments:
        start, end = view.start(call.arguments[0]), view.end(call.arguments[-1])
    elif (listed := call.node.children[-1]).children:
        start = end = view.end(listed.children[0])
    else:
        return
    if text != view.text[start:end]:
        yield trimmed(start, view.text[start:end], text, why)


def _has_variable(names: Names, call: _Call, parameter: Name) -> bool:
    """Whether a variable that must be passed for a new parameter, of its name and type, is visible at a call."""
    declared = names.view.code(declaration(names, parameter))
    is_optional = re.search(r"[=?]", declared)
    variables = [name for name in names.definitions(parameter.text, call.name) if _is_variable(names, name, call)]
    types = {names.view.code(declaration(names, name)) for name in variables if name.role is Role.PARAMETER}
    return not is_optional and bool(variables) and types <= {declared, parameter.text}


def _is_variable(names: Names, name: Name, call: _Call) -> bool:
    """Whether a definition above a call is that of a variable."""
    is_type = name.above[0].type in names.view.table.functions | names.view.table.classes
    return not is_type and (name.role is Role.PARAMETER or name.start < call.name.start)


def _keyword_of(names: Names, argument: Node) -> str:
    """The keyword of an argument; empty for a positional one."""
    name = names.at(names.view.start(argument))
    return name.text if name is not None and name.role is Role.KEYWORD and name.above[0] == argument else ""


def _calls(compared: Compared, name: Name) -> Iterator[_Call]:
    """The calls that certainly mean this function and have not changed."""
    names = compared.new
    word = name.owner if name.text == "__init__" else name.text
    if not is_alone(names, name):
        return
    for each in names.all(word):
        call = _call_of(names, each)
        if call is None or compared.texts.is_new(names.view.start(call.node), names.view.end(call.node)):
            continue
        called = f"{each.receiver}.{word}" if each.role is Role.FIELD else word
        if calls(names, each, called, name):
            yield call


def _call_of(names: Names, name: Name) -> _Call | None:
    """The call whose callee is a name."""
    for kind, called_field, arguments_field in names.rules.calls:
        node = next((each for each in name.above[:2] if each.type == kind), None)
        called = None if node is None else node.child_by_field_name(called_field)
        listed = None if node is None else node.child_by_field_name(arguments_field)
        if node is None or called is None or listed is None or called.end_byte != name.node.end_byte:
            continue
        comments = names.view.table.comments
        return _Call(name, node, tuple(each for each in listed.named_children if each.type not in comments))
    return None

"""Finds what no longer fits after a change of a function's head: arguments of its calls, and `await`, if certain."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tree_sitter import Node

from lsp_server.next_edit.members import calls, declaration, is_alone
from lsp_server.next_edit.names import Name, Names, Role
from lsp_server.next_edit.renames import Compared, NextEdit, trimmed
from lsp_server.syntax.view import View

_MANY = re.compile(r"splat|rest|variadic|spread|separator|self_parameter|^[*/]$")
"""Kinds of parameters and arguments that represent several, or none."""
_ASYNC = re.compile(r"\basync\b")
_YIELD = re.compile(r"\byield\b")
_HALF_TYPED = re.compile(r",\s*[,)]|\(\s*,")
_NEVER_ASYNC = frozenset({"__init__", "__enter__", "__exit__", "constructor"})
_SPECIAL = re.compile(r"(?:\w+ )*(?:get|set) |function ?\*|\*")
"""Accessors and generators."""
_FUNCTION_WORDS = frozenset({"def", "fn", "function"})
_COLLECTED = frozenset({"list_comprehension", "set_comprehension", "generator_expression"})
_CHAINED = re.compile(r"\s*\.\s*(?:then|catch|finally)\b")


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
        yield from _after_async(compared, function)


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
        if name is None or before is None or name.text != before.text or _is_decorated(compared.new, new):
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


def _is_decorated(names: Names, function: Node) -> bool:
    """Whether a decorator may have replaced it."""
    around = names.view.parent(function)
    if around is None or around.type not in names.view.table.wrappers:
        return False
    before = names.view.text[names.view.start(around) : names.view.start(function)]
    return not re.fullmatch(r"\s*@(?:staticmethod|classmethod)\s*", before)


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
    view = compared.new.view
    was = _parameters(compared.old, function.old)
    parameters = _parameters(compared.new, function.node)
    listed = function.node.child_by_field_name("parameters")
    if was is None or parameters is None or listed is None or _HALF_TYPED.search(view.code(listed)):
        return
    old, new = ([name.text for name in each] for each in (was, parameters))
    gone = [name for name in old if name not in new]
    added = [name for name in parameters if name.text not in old]
    is_reordered = [name for name in old if name in new] != [name for name in new if name in old]
    if len(gone) + len(added) + is_reordered != 1 or len(set(new)) < len(new):
        return
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


def _calls(compared: Compared, name: Name, *, also_new: bool = False) -> Iterator[_Call]:
    """The calls that certainly mean this function; without `also_new` only those that have not changed."""
    names = compared.new
    word = name.owner if name.text == "__init__" else name.text
    if not is_alone(names, name):
        return
    for each in names.all(word):
        call = _call_of(names, each)
        if call is None:
            continue
        if not also_new and compared.texts.is_new(names.view.start(call.node), names.view.end(call.node)):
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


def _after_async(compared: Compared, function: _Function) -> Iterator[NextEdit]:
    was = _is_async(compared.old, function.old)
    now = _is_async(compared.new, function.node)
    code = compared.new.view.code(function.node)
    if was == now or not compared.new.rules.awaits or _YIELD.search(code):
        return
    if now:
        heads = _parameters(compared.old, function.old), _parameters(compared.new, function.node)
        old, new = (None if head is None else [name.text for name in head] for head in heads)
        yield from _made_async(compared, function.name, set() if old == new else None)
        return
    for call in _calls(compared, function.name):
        edit = _not_awaited(compared.new, call)
        if edit is not None:
            yield edit


def _made_async(compared: Compared, name: Name, callers: set[int] | None) -> Iterator[NextEdit]:
    """The calls of a function that is async now get an `await`, and their functions become async, all the way up.

    `callers` are the ids of those functions so far; None: only functions that are async already get an `await`.
    """
    names = compared.new
    for call in _calls(compared, name, also_new=True):
        above = names.view.ancestors(call.node)[1:]
        caller = next(
            (node for node in above if node.type in names.view.table.functions or "lambda" in node.type), None
        )
        is_awaited = above[0].type == names.rules.awaits
        edit = None if caller is None or is_awaited else _awaited(names, call, above[: above.index(caller)])
        is_new = compared.texts.is_new(names.view.start(call.node), names.view.end(call.node))
        if caller is None or (edit is None and not is_awaited) or (is_new and not is_awaited):
            continue
        if not _is_async(names, caller) and caller.id not in (callers or ()):
            named = _name_of(names, caller)
            head = [] if callers is None or named is None else list(_async_head(names, caller, named))
            if not head or callers is None or named is None:
                continue
            callers.add(caller.id)
            yield from head
            yield from _made_async(compared, named, callers)
        if edit is not None:
            yield edit


def _async_head(names: Names, function: Node, name: Name) -> Iterator[NextEdit]:
    """The edits that make a function async; none if that would change what it is."""
    view, around = names.view, names.rules.async_result
    code = view.code(function)
    if around is None or name.text in _NEVER_ASYNC or _SPECIAL.match(code) or _YIELD.search(code):
        return
    if _is_decorated(names, function) or (names.rules.await_after and name.text == "main"):
        return
    why = f"{name.text} awaits now"
    word = next((node for node in function.children if node.type in _FUNCTION_WORDS), None)
    is_method = function.child_by_field_name("name") is not None
    at = view.start(word) if word is not None else name.start if is_method else view.start(function)
    yield NextEdit(at, at, "async ", why)
    result = function.child_by_field_name("return_type")
    if around and result is not None:
        end = view.end(result)
        start = view.start(result) + len(view.code(result)) - len(view.code(result).lstrip(": "))
        if not view.text.startswith(around, start):
            yield NextEdit(start, end, f"{around}<{view.text[start:end]}>", why)


def _is_async(names: Names, function: Node) -> bool:
    listed = function.child_by_field_name("parameters")
    end = names.view.end(function) if listed is None else names.view.start(listed)
    return bool(_ASYNC.search(names.view.text, names.view.start(function), end))


def _awaited(names: Names, call: _Call, inside: Sequence[Node]) -> NextEdit | None:
    """The call with an `await`, if nothing else awaits it. `inside` are the nodes around it in its function."""
    view, rules = names.view, names.rules
    if (
        not inside or inside[0].type in _COLLECTED or view.code(inside[0]).startswith("void ")
    ):  # somebody awaits it later
        return None
    handed = filter(None, (names.called([node]) for node in inside))
    if any(re.search(rules.waiters, called) for called in handed) or _CHAINED.match(view.text, view.end(call.node)):
        return None
    why = f"{call.name.text} is async now"
    start = view.start(call.node)
    end = view.end(call.node)
    if rules.await_after:
        return NextEdit(end, end, rules.await_after, why)
    if view.text[end : end + 1] in (".", "[", "("):  # its result is used further
        return NextEdit(start, end, f"({rules.await_before}{view.text[start:end]})", why)
    return NextEdit(start, start, rules.await_before, why)


def _not_awaited(names: Names, call: _Call) -> NextEdit | None:
    """The call without its `await`."""
    view, rules = names.view, names.rules
    around = view.parent(call.node)
    if around is None or around.type != rules.awaits:
        return None
    why = f"{call.name.text} is no longer async"
    if rules.await_after:
        return NextEdit(view.end(call.node), view.end(around), "", why)
    return NextEdit(view.start(around), view.start(call.node), "", why)

"""Adapts calls to a changed function head: their arguments, and `await`, if certain."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tree_sitter import Node

from lsp_server.next_edit.edits import NextEdit, trimmed_edit
from lsp_server.next_edit.members import is_call_of, is_unique_function, parameter_declaration
from lsp_server.next_edit.name_diff import NameDiff
from lsp_server.next_edit.names import NameIndex, Occurrence, Role
from lsp_server.syntax.view import SyntaxView

_SPLAT = re.compile(r"splat|rest|variadic|spread|separator|self_parameter|^[*/]$")
"""The kinds of parameters and arguments that stand for several, or for none."""
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

    name: Occurrence
    node: Node
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class _Function:
    """A function whose head has changed, in both texts."""

    old: Node
    node: Node
    name: Occurrence


def signature_edits(diff: NameDiff) -> Iterator[NextEdit]:
    """The calls that no longer fit the functions with changed heads."""
    for function in changed_functions(diff):
        yield from _parameter_edits(diff, function)
        yield from _async_edits(diff, function)


def changed_functions(diff: NameDiff) -> Iterator[_Function]:
    visited = set[int]()
    for words in diff.text_diff.changed_words:
        old = _function_over(diff.old_names, words.old_start)
        new = _function_over(diff.new_names, words.start)
        if old is None or new is None or new.id in visited:
            continue
        visited.add(new.id)
        name = _name_of(diff.new_names, new)
        old_name = _name_of(diff.old_names, old)
        if name is None or old_name is None or name.text != old_name.text or _is_decorated(diff.new_names, new):
            continue
        yield _Function(old, new, name)


def _function_over(names: NameIndex, offset: int) -> Node | None:
    view = names.view
    leaf = view.leaf_at(min(offset, len(view.text) - 1))
    for node in view.ancestors(leaf):
        if node.type in view.table.functions:
            body = node.child_by_field_name("body")
            return node if body is None or offset < view.start(body) else None
    return None


def _name_of(names: NameIndex, function: Node) -> Occurrence | None:
    node = function.child_by_field_name("name")
    if node is None and function.parent is not None:
        node = function.parent.child_by_field_name("name")
    return None if node is None else names.at_offset(names.view.start(node))


def _is_decorated(names: NameIndex, function: Node) -> bool:
    """Whether a decorator may have replaced the function."""
    wrapper = names.view.parent(function)
    if wrapper is None or wrapper.type not in names.view.table.wrappers:
        return False
    decorators = names.view.text[names.view.start(wrapper) : names.view.start(function)]
    return not re.fullmatch(r"\s*@(?:staticmethod|classmethod)\s*", decorators)


def _parameters(names: NameIndex, function: Node) -> list[Occurrence] | None:
    """The parameters in order, without the object itself; None if one represents several."""
    view = names.view
    list_node = function.child_by_field_name("parameters")
    parameters: list[Occurrence] = []
    for child in () if list_node is None else list_node.named_children:
        if child.type in view.table.comments or child.type == "self_parameter":
            continue
        if _SPLAT.search(child.type) or any(_SPLAT.search(inner.type) for inner in child.named_children):
            return None
        named = [names.at_offset(view.start(leaf)) for leaf in view.leaves(view.start(child), view.end(child))]
        parameters += [name for name in named if name is not None and name.role is Role.PARAMETER]
    return parameters[1:] if parameters and parameters[0].text in names.rules.selves else parameters


def _parameter_edits(diff: NameDiff, function: _Function) -> Iterator[NextEdit]:
    """Removes the arguments of removed parameters from calls, reorders arguments, and adds those of new parameters."""
    view = diff.new_names.view
    old_parameters = _parameters(diff.old_names, function.old)
    parameters = _parameters(diff.new_names, function.node)
    list_node = function.node.child_by_field_name("parameters")
    if old_parameters is None or parameters is None or list_node is None or _HALF_TYPED.search(view.code(list_node)):
        return
    old, new = ([name.text for name in names] for names in (old_parameters, parameters))
    removed = [name for name in old if name not in new]
    added = [name for name in parameters if name.text not in old]
    is_reordered = [name for name in old if name in new] != [name for name in new if name in old]
    if len(removed) + len(added) + is_reordered != 1 or len(set(new)) < len(new):
        return
    for call in _calls(diff, function.name):
        keywords = [_keyword_of(diff.new_names, argument) for argument in call.arguments]
        num_positional = next((index for index, keyword in enumerate(keywords) if keyword), len(keywords))
        passed = [*old[:num_positional], *keywords[num_positional:]]
        is_certain = len(passed) == len(keywords) and all(keywords[num_positional:])
        if not is_certain or any(_SPLAT.search(argument.type) for argument in call.arguments):  # of unknown number
            continue
        codes = [*map(view.code, call.arguments)]
        gaps = [view.text[view.end(left) : view.start(right)] for left, right in pairwise(call.arguments)]
        if removed and removed[0] in passed:
            index = passed.index(removed[0])
            del codes[index], gaps[max(index - 1, 0) : max(index, 1)]
            why = f"no longer takes {removed[0]}"
        elif is_reordered and set(passed[:num_positional]) == set(new[:num_positional]):
            codes[:num_positional] = [codes[old.index(name)] for name in new[:num_positional]]
            why = "takes its arguments in another order"
        elif (
            added
            and (index := new.index(added[0].text)) <= num_positional
            and _has_variable(diff.new_names, call, added[0])
        ):
            gaps[index:index] = [", "] if codes else []
            codes.insert(index, added[0].text)
            why = f"takes {added[0].text} now"
        else:
            continue
        text = "".join(code + gap for code, gap in zip(codes, [*gaps, ""], strict=False))
        yield from _with_arguments(view, call, text, f"{call.name.text} {why}")


def _with_arguments(view: SyntaxView, call: _Call, text: str, why: str) -> Iterator[NextEdit]:
    if call.arguments:
        start, end = view.start(call.arguments[0]), view.end(call.arguments[-1])
    elif (listed := call.node.children[-1]).children:
        start = end = view.end(listed.children[0])
    else:
        return
    if text != view.text[start:end]:
        yield trimmed_edit(start, view.text[start:end], text, why)


def _has_variable(names: NameIndex, call: _Call, parameter: Occurrence) -> bool:
    """Whether a variable that must be passed for a new parameter, of its name and type, is visible at a call."""
    declared = names.view.code(parameter_declaration(names, parameter))
    is_optional = re.search(r"[=?]", declared)
    variables = [name for name in names.definitions(parameter.text, call.name) if _is_variable(names, name, call)]
    types = {names.view.code(parameter_declaration(names, name)) for name in variables if name.role is Role.PARAMETER}
    return not is_optional and bool(variables) and types <= {declared, parameter.text}


def _is_variable(names: NameIndex, name: Occurrence, call: _Call) -> bool:
    """Whether a name above a call is the definition of a variable."""
    is_type = name.ancestors[0].type in names.view.table.functions | names.view.table.classes
    return not is_type and (name.role is Role.PARAMETER or name.start < call.name.start)


def _keyword_of(names: NameIndex, argument: Node) -> str:
    """The keyword of an argument; empty for a positional one."""
    name = names.at_offset(names.view.start(argument))
    return name.text if name is not None and name.role is Role.KEYWORD and name.ancestors[0] == argument else ""


def _calls(diff: NameDiff, name: Occurrence, *, also_new: bool = False) -> Iterator[_Call]:
    """The calls that are certainly of this function; without `also_new`, only the unchanged ones."""
    names = diff.new_names
    word = name.owner if name.text == "__init__" else name.text
    if not is_unique_function(names, name):
        return
    for occurrence in names.occurrences(word):
        call = _call_of(names, occurrence)
        if call is None:
            continue
        if not also_new and diff.text_diff.has_new_text(names.view.start(call.node), names.view.end(call.node)):
            continue
        callee = f"{occurrence.receiver}.{word}" if occurrence.role is Role.FIELD else word
        if is_call_of(names, occurrence, callee, name):
            yield call


def _call_of(names: NameIndex, name: Occurrence) -> _Call | None:
    for kind, callee_field, arguments_field in names.rules.calls:
        node = next((node for node in name.ancestors[:2] if node.type == kind), None)
        callee = None if node is None else node.child_by_field_name(callee_field)
        list_node = None if node is None else node.child_by_field_name(arguments_field)
        if node is None or callee is None or list_node is None or callee.end_byte != name.node.end_byte:
            continue
        comments = names.view.table.comments
        return _Call(name, node, tuple(node for node in list_node.named_children if node.type not in comments))
    return None


def _async_edits(diff: NameDiff, function: _Function) -> Iterator[NextEdit]:
    """The calls of a function that became async, and the functions around them."""
    became_async = _is_async(diff.new_names, function.node) and not _is_async(diff.old_names, function.old)
    if became_async and diff.new_names.rules.awaits and not _YIELD.search(diff.new_names.view.code(function.node)):
        heads = _parameters(diff.old_names, function.old), _parameters(diff.new_names, function.node)
        old, new = (None if head is None else [name.text for name in head] for head in heads)
        yield from _make_async(diff, function.name, set() if old == new else None)


def _make_async(diff: NameDiff, name: Occurrence, callers: set[int] | None) -> Iterator[NextEdit]:
    """The calls of a function that is async now get an `await`, and their functions become async, all the way up.

    `callers` are the ids of those functions so far; None: only functions that are async already get an `await`.
    """
    names = diff.new_names
    for call in _calls(diff, name, also_new=True):
        ancestors = names.view.ancestors(call.node)[1:]
        caller = next(
            (node for node in ancestors if node.type in names.view.table.functions or "lambda" in node.type), None
        )
        is_awaited = ancestors[0].type == names.rules.awaits
        edit = None if caller is None or is_awaited else _add_await(names, call, ancestors[: ancestors.index(caller)])
        is_new = diff.text_diff.has_new_text(names.view.start(call.node), names.view.end(call.node))
        if caller is None or (edit is None and not is_awaited) or (is_new and not is_awaited):
            continue
        if not _is_async(names, caller) and caller.id not in (callers or ()):
            caller_name = _name_of(names, caller)
            head = [] if callers is None or caller_name is None else list(_async_head(names, caller, caller_name))
            if not head or callers is None or caller_name is None:
                continue
            callers.add(caller.id)
            yield from head
            yield from _make_async(diff, caller_name, callers)
        if edit is not None:
            yield edit


def _async_head(names: NameIndex, function: Node, name: Occurrence) -> Iterator[NextEdit]:
    """The edits that make a function async; none if it cannot be, as a generator or a constructor."""
    view, result_type = names.view, names.rules.async_result
    code = view.code(function)
    if result_type is None or name.text in _NEVER_ASYNC or _SPECIAL.match(code) or _YIELD.search(code):
        return
    if _is_decorated(names, function) or (names.rules.await_after and name.text == "main"):
        return
    why = f"{name.text} awaits now"
    word = next((node for node in function.children if node.type in _FUNCTION_WORDS), None)
    is_method = function.child_by_field_name("name") is not None
    offset = view.start(word) if word is not None else name.start if is_method else view.start(function)
    yield NextEdit(offset, offset, "async ", why)
    result = function.child_by_field_name("return_type")
    if result_type and result is not None:
        end = view.end(result)
        start = view.start(result) + len(view.code(result)) - len(view.code(result).lstrip(": "))
        if not view.text.startswith(result_type, start):
            yield NextEdit(start, end, f"{result_type}<{view.text[start:end]}>", why)


def _is_async(names: NameIndex, function: Node) -> bool:
    list_node = function.child_by_field_name("parameters")
    end = names.view.end(function) if list_node is None else names.view.start(list_node)
    return bool(_ASYNC.search(names.view.text, names.view.start(function), end))


def _add_await(names: NameIndex, call: _Call, inside: Sequence[Node]) -> NextEdit | None:
    """The call with an `await`, if nothing else awaits it. `inside` are the nodes around it in its function."""
    view, rules = names.view, names.rules
    if not inside or inside[0].type in _COLLECTED or view.code(inside[0]).startswith("void "):  # it is awaited later
        return None
    callees = filter(None, (names.callee_of([node]) for node in inside))
    if any(re.search(rules.waiters, callee) for callee in callees) or _CHAINED.match(view.text, view.end(call.node)):
        return None
    why = f"{call.name.text} is async now"
    start = view.start(call.node)
    end = view.end(call.node)
    if rules.await_after:
        return NextEdit(end, end, rules.await_after, why)
    if view.text[end : end + 1] in (".", "[", "("):  # its result is used further
        return NextEdit(start, end, f"({rules.await_before}{view.text[start:end]})", why)
    return NextEdit(start, start, rules.await_before, why)

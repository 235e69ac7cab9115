"""The arguments of one call after its function got other parameters."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tree_sitter import Node

from lsp_server.next_edit.members import declaration
from lsp_server.next_edit.names import Name, Names, Role
from lsp_server.next_edit.renames import NextEdit

MANY = re.compile(r"splat|rest|variadic|spread|separator|self_parameter|^[*/]$")
"""Kinds of parameters and arguments that represent several, or none."""


@dataclass(frozen=True)
class Call:
    """A call of a function: the name in it, its node, and its arguments."""

    name: Name
    node: Node
    arguments: tuple[Node, ...]


def without(names: Names, call: Call, index: int, keyword: str) -> Iterator[NextEdit]:
    """The call without the removed parameter's argument."""
    if any(MANY.search(argument.type) for argument in call.arguments):
        return
    by_name = [_keyword_of(names, argument) for argument in call.arguments]
    positional = by_name.index(next((name for name in by_name if name), "")) if any(by_name) else len(by_name)
    at = by_name.index(keyword) if keyword in by_name else index
    if at >= len(call.arguments) or (keyword not in by_name and index >= positional):
        return
    view, arguments = names.view, call.arguments
    if at:
        start = view.end(arguments[at - 1])
        end = view.end(arguments[at])
    else:
        start = view.start(arguments[0])
        end = view.start(arguments[1]) if len(arguments) > 1 else view.end(arguments[0])
    yield NextEdit(start, end, "", f"{call.name.text} no longer takes {keyword}")


def reordered(names: Names, call: Call, order: Sequence[int]) -> Iterator[NextEdit]:
    """The call with its arguments in the new order."""
    view = names.view
    by_name = [bool(_keyword_of(names, each)) for each in call.arguments]
    arguments = call.arguments[: (*by_name, True).index(True)]
    order = order[: len(arguments)]
    is_spread = any(MANY.search(each.type) for each in call.arguments)
    if not arguments or is_spread or sorted(order) != list(range(len(arguments))) or not all(by_name[len(arguments) :]):
        return
    start = view.start(arguments[0])
    end = view.end(arguments[-1])
    between = [view.text[view.end(left) : view.start(right)] for left, right in pairwise(arguments)]
    texts = [view.code(arguments[at]) for at in order]
    text = "".join(text + gap for text, gap in zip(texts, [*between, ""], strict=True))
    if text != view.text[start:end]:
        yield NextEdit(start, end, text, f"{call.name.text} takes its arguments in another order")


def extended(names: Names, call: Call, index: int, parameter: Name) -> Iterator[NextEdit]:
    """The call with an argument for a new parameter: a variable of its name that is visible there."""
    view = names.view
    arguments = call.arguments
    word = parameter.text
    declared = view.code(declaration(names, parameter))
    first_by_name = next((at for at, each in enumerate(arguments) if _keyword_of(names, each)), len(arguments))
    if re.search(r"[=?]", declared) or index > first_by_name or any(MANY.search(each.type) for each in arguments):
        return
    variables = [name for name in names.definitions(word, call.name) if _is_variable(names, name, call)]
    types = {view.code(declaration(names, name)) for name in variables if name.role is Role.PARAMETER}
    if not variables or not types <= {declared, word}:
        return
    why = f"{call.name.text} takes {word} now"
    if index < len(arguments):
        start = view.start(arguments[index])
        yield NextEdit(start, start, f"{word}, ", why)
    elif arguments:
        yield NextEdit(view.end(arguments[-1]), view.end(arguments[-1]), f", {word}", why)
    elif (listed := call.node.children[-1]).children:
        start = view.end(listed.children[0])
        yield NextEdit(start, start, word, why)


def _is_variable(names: Names, name: Name, call: Call) -> bool:
    """Whether a definition above a call is that of a variable."""
    is_type = name.above[0].type in names.view.table.functions | names.view.table.classes
    return not is_type and (name.role is Role.PARAMETER or name.start < call.name.start)


def _keyword_of(names: Names, argument: Node) -> str:
    """The keyword of an argument; empty for a positional one."""
    first = next(leaves(argument))
    name = names.at(names.view.start(first))
    return name.text if name is not None and name.role is Role.KEYWORD and first.parent == argument else ""


def leaves(node: Node) -> Iterator[Node]:
    """The tokens of a node."""
    if not node.child_count:
        yield node
    for child in node.children:
        yield from leaves(child)

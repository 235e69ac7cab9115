"""Literals that say what they mean: objects with a declared type, and strings that hold a name."""

import re
from collections.abc import Sequence
from itertools import islice

from tree_sitter import Node

from lsp_server.syntax.view import View

_BARE = frozenset({"return_statement", "parenthesized_expression", "statement_block"})
"""Kinds of nodes between an object and the function that returns it."""
_VALUES = re.compile(r"(?:\w+\.)?(?:Literal|Annotated)\[")
_EXPORTS = re.compile(r"__all__\b")
_NEAR = 12


def type_of_literal(view: View, above: Sequence[Node]) -> str:
    """The declared type of the object around a key; empty if there is none. `above` starts at the key's pair."""
    in_list = False
    for node in above[2:]:
        if node.type == "array":
            in_list = True
        elif typed := node.child_by_field_name("type") or node.child_by_field_name("return_type"):
            code = re.sub(r"^:\s*(?:Promise<(?=.*>$))?|>$", "", view.code(typed))
            return code if not in_list else code.removesuffix("[]") if code.endswith("[]") else ""
        elif node.type not in _BARE:
            return ""
    return ""


def variable_of_literal(view: View, above: Sequence[Node]) -> str:
    """The constant that holds the object around a key; empty if it is no constant. `above` starts at the key's pair."""
    node = next((each for each in above[2:] if each.type not in ("as_expression", "satisfies_expression")), None)
    around = None if node is None or node.type != "variable_declarator" else node.parent
    is_constant = around is not None and bool(around.children) and around.children[0].type == "const"
    named = node.child_by_field_name("name") if node is not None and is_constant else None
    return "" if named is None else view.code(named)


def is_quoted_name(view: View, node: Node, above: Sequence[Node]) -> bool:
    """Whether a string is a name: an annotation, or one of the names that a module exports."""
    if node.type != "string_content" or not view.code(node).isidentifier():
        return False
    for around in islice(above, 1, _NEAR):
        if around.type == "type" and not any(_VALUES.match(view.code(each)) for each in above[1:_NEAR]):
            return True
        if around.type == "assignment":
            return _EXPORTS.match(view.code(around)) is not None
        if around.type not in ("list", "tuple", "binary_operator"):
            return False
    return False
